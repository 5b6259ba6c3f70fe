"""Token counts as a user meets them: `halo prompt --layers`, `--ask`, and the budget of `halo check`."""

import json
import os
import re
import sys

import pytest
from making import agent

from halo.cli.main import run

GPT = {"provider": "openai", "id": "gpt-5-mini"}
LOCAL = {"provider": "local", "id": "smollm2-135m-instruct", "max_tokens": 24}
KEY = "sk-very-secret-0123456789"
JSON = {"content-type": "application/json"}


@pytest.fixture
def ws(make_workspace, monkeypatch):
    made = make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(
                model=GPT, description="leads", tools=["file_read", "grep"]
            ),
            ".halo/agents/default/AGENT.md": "You lead. It is {{now}}.\n",
            ".halo/agents/default/fewshots/tides.yaml": "- user: When is high water?\n- assistant: At 12:40.\n",
            ".halo/agents/near/agent.yaml": agent(model=LOCAL, description="is near", tools=["grep"]),
            ".halo/agents/near/AGENT.md": "You are near.\n",
            ".halo/INSTRUCTIONS.md": "Keep the tide tables of naïve sailors.\n",
            ".halo/USER.md": "Mira.\n",
        }
    )
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HOME", str(made.home.parent))
    monkeypatch.setenv("HALO_CACHE", str(made.home / "cache"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


def table(capfd, *options):
    """The table of `halo prompt --layers`: who counted, and name -> (tokens, the row)."""
    assert run(["prompt", "--layers", *options]) == 0
    said = capfd.readouterr()
    _, head, *lines = said.out.splitlines()
    (tokenizer,) = re.findall(r"tokens \((.*?)\)", head)
    end = head.index("tokens") + len(f"tokens ({tokenizer})")
    rows = {}
    for line in lines:
        rows[re.split("  +", line)[0]] = (int(line[:end].split()[-1].replace(",", "")), line)
    return tokenizer, rows


class TestLayers:
    def test_the_tokenizer_of_the_model_is_named(self, ws, capfd):
        assert table(capfd)[0] == "o200k_base"

    def test_an_estimate_is_called_one(self, ws, capfd):
        assert table(capfd, "-a", "near")[0] == "estimate"
        ws.write({".halo/agents/default/agent.yaml": agent(model={**GPT, "id": "my-own"})})
        assert table(capfd)[0] == "estimate"

    def test_a_profile_with_another_model_is_counted_by_its_tokenizer(self, ws, capfd):
        ws.write(
            {
                ".halo/settings.yaml": f"general: {{models: {{profiles: {{ci: {{default: {json.dumps(LOCAL)}}}}}}}}}\n"
            }
        )
        assert table(capfd, "--profile", "ci")[0] == "estimate"

    @pytest.mark.parametrize("who", ["default", "near"])
    def test_all_that_is_sent_has_a_row_and_the_rows_add_up(self, ws, capfd, who):
        _, rows = table(capfd, "-a", who)
        total, line = rows.pop("total")
        assert sum(tokens for tokens, _ in rows.values()) == total
        tokens, schemas = rows["tool schemas"]
        assert tokens > 20
        assert schemas.endswith("  3 tools" if who == "default" else "  2 tools")
        assert ("fewshots/tides.yaml" in rows) == (who == "default")
        shares = [int(s) for _, row in rows.values() for s in re.findall(r"(\d+) %", row)]
        assert abs(sum(shares) - 100) <= len(rows) / 2
        # The slot of `default` stands in AGENT.md, that of `near` in the last segment.
        prefix = int(re.search(r"([\d,]+) in the cached prefix$", line)[1].replace(",", ""))
        if who == "near":
            assert total - tokens - rows["environment"][0] < prefix < total - tokens
        else:
            assert rows["user"][0] < prefix < rows["user"][0] + rows["agent"][0]

    def test_an_agent_that_lists_no_tools_has_its_status(self, ws, capfd):
        ws.write({".halo/agents/default/agent.yaml": agent(model=GPT)})
        assert table(capfd)[1]["tool schemas"][1].endswith("  1 tool")

    def test_the_artifact_does_not_know_what_is_installed(self, ws, capfd):
        table(capfd)
        manifests = [data for path, data in ws.artifacts().items() if path.endswith("manifest.json")]
        assert manifests
        assert not any(b"o200k" in data for data in manifests)

    def test_a_tokenizer_that_does_not_load_is_told_once(self, ws, capfd, monkeypatch):
        monkeypatch.setitem(sys.modules, "bpe_openai", None)
        assert run(["prompt", "--layers"]) == 0
        said = capfd.readouterr()
        assert "tokens (estimate)" in said.out
        assert said.err.count("note: tokens are estimated: bpe-openai ") == 1

    def test_doit_prints_the_same_table(self, ws, capfd):
        ws.write({"dodo.py": "from halo.dodo import *\n"})
        assert run(["prompt", "--layers"]) == 0
        assert (
            capfd.readouterr().out
            in ws.doit("prompt", "--layers", HALO_CACHE=os.environ["HALO_CACHE"]).stdout
        )


def test_a_warm_cache_imports_no_tokenizer(ws):
    code = (
        "import sys\nfrom halo.__main__ import main\nsys.argv = ['halo', 'prompt', '--layers']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*[m for m in ('bpe_openai', 'ctok', 'asyncio', 'openai', 'httpx2') if m in sys.modules], file=sys.stderr)"
    )
    cache = str(ws.home / "cache")
    first, second = (ws.run("-c", code, HALO_CACHE=cache) for _ in range(2))
    assert "bpe_openai" in first.stderr.splitlines()[-1].split()
    assert second.stderr.splitlines()[-1].split() == []
    assert first.stdout == second.stdout
    assert "tokens (o200k_base)" in first.stdout


class TestBudget:
    def said(self, capfd, budget):
        code = run(["check", "--budget", str(budget)])
        lines = [line for line in capfd.readouterr().out.splitlines() if "H604" in line]
        return code, [line for line in lines if "default · root" in line or "near · root" in line]

    def test_the_message_says_who_counted(self, ws, capfd):
        code, lines = self.said(capfd, 20)
        (exact,) = (line for line in lines if "default · root" in line)
        (guess,) = (line for line in lines if "near · root" in line)
        assert code == 1
        assert re.search(r"default · root has [\d,]+ tokens \(o200k_base\), [\d,]+ more than 20", exact)
        assert re.search(r"near · root has about [\d,]+ tokens \(estimate\), [\d,]+ more than 20", guess)
        assert "tool schemas (" in exact

    def test_it_is_the_total_of_the_table(self, ws, capfd):
        total = table(capfd)[1]["total"][0]
        lines = self.said(capfd, total)[1]
        assert not any("default · root" in line for line in lines)
        (line,) = (line for line in self.said(capfd, total - 1)[1] if "default · root" in line)
        assert f"default · root has {total:,} tokens (o200k_base), 1 more than {total - 1:,}" in line

    def test_few_shots_may_break_it(self, ws, capfd):
        ws.write(
            {".halo/agents/near/fewshots/long.yaml": f"- user: {'high water ' * 3000}\n- assistant: Yes.\n"}
        )
        (line,) = self.said(capfd, 5000)[1]
        assert "the largest parts: few-shots (" in line

    def test_without_a_budget_nothing_is_counted(self, ws, capfd):
        run(["check"])
        assert "H604" not in capfd.readouterr().out
        assert not (ws.home / "cache").exists()


def asked(capfd, *options):
    """The provider's count in the table."""
    tokens, line = table(capfd, "--ask", *options)[1]["request"]
    return tokens, line


class TestAsking:
    @pytest.fixture(params=["openai", "anthropic"])
    def provider(self, request):
        return request.param

    @pytest.fixture
    def server(self, ws, scripted, provider):
        """The agent `default` talks to the scripted server on this machine."""
        endpoint = f"{scripted.url}/v1" if provider == "openai" else scripted.url
        model = {"provider": provider, "id": "m", "endpoint": endpoint}
        ws.write({".halo/agents/default/agent.yaml": agent(model=model, tools=["grep"])})
        return scripted

    def test_the_answer_is_a_row_and_is_asked_for_once(self, ws, capfd, server, provider, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        server.says(b'{"input_tokens": 4321}', headers=JSON)
        for _ in range(2):
            tokens, line = asked(capfd)
            assert tokens == 4321
            assert line.endswith(f"by {provider}'s own count, with a message of one character")
        (sent,) = server.requests
        assert KEY in sent.headers["authorization"]
        body = sent.body.decode()
        for part in ("You lead.", "{{now}}", "When is high water?", "At 12:40.", '"grep"'):
            assert part in body
        assert str(ws.root) not in body
        assert KEY not in (ws.home / "cache" / "tokens.txt").read_text()

    def test_another_prompt_is_another_question(self, ws, capfd, server):
        server.says(b'{"input_tokens": 4321}', headers=JSON)
        server.says(b'{"input_tokens": 4322}', headers=JSON)
        assert asked(capfd)[0] == 4321
        ws.write({".halo/USER.md": "Mira, the skipper.\n"})
        assert asked(capfd)[0] == 4322

    @pytest.mark.parametrize(
        ("status", "said"), [(401, "does not accept the key (401)"), (429, "asks to slow down (429)")]
    )
    def test_a_refusal_is_an_error_and_is_not_kept(self, capfd, server, status, said):
        server.fails(status, {"error": {"message": "no"}})
        assert run(["prompt", "--layers", "--ask"]) == 1
        out, err = capfd.readouterr()
        assert said in err
        assert out == ""
        server.says(b'{"input_tokens": 7}', headers=JSON)
        assert asked(capfd)[0] == 7

    def test_offline(self, ws, capfd, provider):
        model = {"provider": provider, "id": "m", "endpoint": "http://127.0.0.1:9"}
        ws.write({".halo/agents/default/agent.yaml": agent(model=model)})
        assert run(["prompt", "--layers", "--ask"]) == 1
        assert "cannot reach" in capfd.readouterr().err

    def test_no_key(self, ws, capfd, provider):
        model = {"provider": provider, "id": "gpt-5" if provider == "openai" else "claude-opus-4-8"}
        ws.write({".halo/agents/default/agent.yaml": agent(model=model)})
        assert run(["prompt", "--layers", "--ask"]) == 3
        out, err = capfd.readouterr()
        assert f"the key of {provider} is not set" in err
        assert out == ""

    def test_neither_prompt_nor_key_go_where_nobody_trusts(self, ws, capfd, provider, monkeypatch):
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", KEY)
        model = {"provider": provider, "id": "m", "endpoint": "https://models.example.com"}
        ws.write({".halo/agents/default/agent.yaml": agent(model=model)})
        assert run(["prompt", "--layers", "--ask"]) == 3
        assert "must not go to https://models.example.com" in capfd.readouterr().err

    def test_it_belongs_to_the_table(self, ws, capfd):
        assert run(["prompt", "--ask"]) == 2
        assert "--layers" in capfd.readouterr().err

    def test_a_local_model_counts_for_itself(self, ws, capfd, shared_cache, monkeypatch):
        monkeypatch.setenv("HALO_CACHE", shared_cache)
        monkeypatch.setenv("HALO_THREADS", "1")
        tokens, line = asked(capfd, "-a", "near")
        estimate = table(capfd, "-a", "near")[1]["total"][0]
        assert "by local's own count" in line
        assert 0.4 * estimate < tokens < 1.5 * estimate
