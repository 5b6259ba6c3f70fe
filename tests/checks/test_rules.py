"""Each rule of `halo check`: what it says, where, and what it leaves alone."""

import json
import re
from typing import ClassVar

import fastjsonschema
import pytest
from making import REPOSITORY, agent, skill, tree

from halo.checks import reports
from halo.checks.checking import check
from halo.checks.credentials import credential_in
from halo.checks.registry import RULES
from halo.checks.subject import take
from halo.errors import UnknownNameError
from halo.records.commands import WORDS
from halo.sessions.commands.table import COMMANDS

SOUND = {
    ".halo/agents/default/agent.yaml": agent(description="leads", skills=["sums"], team=["helper"]),
    ".halo/agents/default/AGENT.md": "You lead.\n",
    ".halo/agents/helper/agent.yaml": agent(description="helps"),
    ".halo/agents/helper/AGENT.md": "You help.\n",
    ".halo/skills/sums/SKILL.md": skill("Add up.", name="sums", description="Adds up numbers."),
    ".halo/prompts/all/rules.md": "Be brief.\n",
    ".halo/prompts/root/.gitkeep": "",
    ".halo/prompts/bootstrap/.gitkeep": "",
    ".halo/USER.md": "Mira.\n",
}


def report(budget=None, agents=(), **files):
    kept = {key: text for key, text in {**SOUND, **files}.items() if text is not None}
    return check(take(tree(kept), agents), budget)


def found(code, budget=None, agents=(), **files):
    """The findings of one rule, as (place, line, message)."""
    return [(f.source, f.line, f.message) for f in report(budget, agents, **files).findings if f.code == code]


def test_a_sound_workspace_has_no_findings():
    assert [f for f in report().findings if f.severity != "info"] == []
    assert not report().failed


def test_a_layer_that_does_not_compile_is_named_once():
    files = {".halo/agents/helper/agent.yaml": "model: {provider: openai, id: m}\ntols: [grep]\n"}
    ((source, line, message),) = found("does-not-compile", **files)
    assert (source, line) == ("workspace:.halo/agents/helper/agent.yaml", 2)
    assert "did you mean" in message or "known:" in message
    assert report(**files).failed


class TestPolicy:
    AGENT = """\
model: {provider: openai, id: m}
description: helps
policy:
  - {tool: shel_exec, action: deny}
  - {tool: grep, action: deny, command: x*}
  - {tool: "file_*", action: ask}
  - {tool: file_read, action: deny}
  - {tool: shell_exec, action: allow, command: "git *"}
  - {tool: shell_exec, action: deny, command: "git *"}
  - {tool: "mcp__*", action: ask}
  - {tool: mcp__files__delete, action: deny}
  - {tool: mcp__unknown, action: deny}
  - {tool: "*", action: deny}
  - {tool: "?lob", action: ask}
"""

    def test_rules_that_never_match(self):
        told = found("idle-policy-rule", **{".halo/agents/helper/agent.yaml": self.AGENT})
        assert [(line, said.partition(": ")[2]) for _, line, said in told] == [
            (4, "there is no tool 'shel_exec'; did you mean 'shell_exec'?"),
            (5, "grep has no command line, only shell_exec has"),
            (7, "rule 3 of the list (ask file_*) takes every call before it"),
            (11, "rule 7 of the list (ask mcp__*) takes every call before it"),
            (12, "rule 7 of the list (ask mcp__*) takes every call before it"),
            (14, "rule 10 of the list (deny *) takes every call before it"),
        ]
        assert {source for source, _, _ in told} == {"workspace:.halo/agents/helper/agent.yaml"}

    def test_those_of_the_settings(self):
        settings = "general:\n  tools:\n    policy:\n      - {tool: glop, action: ask}\n"
        ((source, line, message),) = found("idle-policy-rule", **{".halo/settings.yaml": settings})
        assert (source, line) == ("workspace:.halo/settings.yaml", 4)
        assert "did you mean 'glob'?" in message

    @pytest.mark.parametrize(
        ("rule", "said"),
        [
            ("{tool: grep, action: maybe}", "maybe"),
            ("{tool: grep}", "action"),
            ("{action: deny}", "tool"),
            ('{tool: "", action: deny}', "tool"),
            ("{tool: grep, action: deny, comand: x}", "comand"),
            ("deny", "policy"),
        ],
    )
    def test_what_is_no_rule_is_told_with_its_line(self, rule, said):
        text = f"model: {{provider: openai, id: m}}\npolicy:\n  - {{tool: glob, action: ask}}\n  - {rule}\n"
        ((source, line, message),) = found("does-not-compile", **{".halo/agents/helper/agent.yaml": text})
        assert (source, line) == ("workspace:.halo/agents/helper/agent.yaml", 4)
        assert said in message


class TestCost:
    def test_a_slot_in_the_stable_prefix_and_what_it_costs(self):
        files = {".halo/agents/default/AGENT.md": "You lead.\nIt is {{now}}.\n" + "Word after word. " * 100}
        ((source, line, message),) = found("volatile-prefix", **files)
        assert (source, line) == ("workspace:.halo/agents/default/AGENT.md", 2)
        assert int(re.search(r"about ([\d,]+) tokens", message)[1].replace(",", "")) > 400

    def test_slots_of_the_environment_are_where_they_belong(self):
        assert found("volatile-prefix") == []

    def test_a_prompt_below_what_its_provider_caches(self):
        model = {"provider": "anthropic", "id": "claude-sonnet-4-5"}
        catalogue = (REPOSITORY / "templates/models/anthropic.yaml").read_text(encoding="utf-8")
        files = {
            ".halo/agents/default/agent.yaml": agent(model=model, description="leads"),
            "builtin:models/anthropic.yaml": catalogue,
        }
        messages = [message for _, _, message in found("below-cache-minimum", **files)]
        assert any(message.startswith("default · root: about") for message in messages)
        files[".halo/agents/default/AGENT.md"] = "You lead. " * 3000
        messages = [message for _, _, message in found("below-cache-minimum", **files)]
        assert not any("default" in message for message in messages)

    def test_a_budget(self):
        assert found("over-budget", 100_000) == []
        messages = [m for _, _, m in found("over-budget", 20)]
        assert any(m.startswith("default · root has about") for m in messages)
        assert report(20).failed

    BUILTIN: ClassVar = {
        "builtin:agents/worker/agent.yaml": agent(description="works"),
        "builtin:agents/worker/AGENT.md": "You work.\n",
    }

    def test_a_budget_is_for_agents_that_can_be_shortened(self):
        sources = {source for source, _, _ in found("over-budget", 1, **self.BUILTIN)}
        assert sources == {f"workspace:.halo/agents/{name}/AGENT.md" for name in ("default", "helper")}
        files = {"global:agents/mine/agent.yaml": agent(), "global:agents/mine/AGENT.md": "Mine.\n"}
        assert any(s == "global:agents/mine/AGENT.md" for s, _, _ in found("over-budget", 1, **files))

    def test_a_budget_for_chosen_agents(self):
        sources = {source for source, _, _ in found("over-budget", 1, ["worker"], **self.BUILTIN)}
        assert sources == {"builtin:agents/worker/AGENT.md"}
        with pytest.raises(UnknownNameError, match="unknown agent 'wroker'"):
            report(1, ["wroker"], **self.BUILTIN)

    def test_other_rules_about_agents_are_narrowed_too(self):
        files = {
            ".halo/agents/helper/agent.yaml": agent(),
            ".halo/agents/helper/AGENT.md": "{{now}}" + "x " * 999,
        }
        for code in ("agent-without-description", "volatile-prefix"):
            assert found(code, **files)
            assert found(code, None, ["default"], **files) == []

    def test_an_agent_without_a_file_of_text_is_found_at_its_yaml(self):
        files = {
            ".halo/agents/helper/agent.yaml": agent(description="helps", system_prompt="Help. " * 99),
            ".halo/agents/helper/AGENT.md": None,
        }
        places = {(source, line) for source, line, _ in found("over-budget", 1, ["helper"], **files)}
        assert places == {("workspace:.halo/agents/helper/agent.yaml", 1)}

    def test_text_that_two_layers_repeat(self):
        text = "Never push with force to a branch that others use. " * 5
        files = {
            ".halo/INSTRUCTIONS.md": f"# Rules\n\n{text}\n",
            ".halo/agents/default/AGENT.md": f"You lead.\n\n{text}\n",
        }
        ((source, line, message),) = found("repeated-text", **files)
        assert (source, line) == ("workspace:.halo/INSTRUCTIONS.md", 3)
        assert "workspace:.halo/agents/default/AGENT.md:3" in message
        assert found("repeated-text", **{".halo/INSTRUCTIONS.md": "Be brief.\n"}) == []


class TestHiddenText:
    @pytest.mark.parametrize("char", ["\u200b", "\u202e", "\U000e0041", "\u00ad", "\x1b", "\u2066"])
    def test_a_hidden_character_is_named_with_its_line(self, char):
        ((source, line, message),) = found(
            "hidden-characters", **{".halo/INSTRUCTIONS.md": f"One.\nT{char}wo.\n"}
        )
        assert (source, line) == ("workspace:.halo/INSTRUCTIONS.md", 2)
        assert f"U+{ord(char):04X}" in message

    def test_what_scripts_and_emoji_need_is_left_alone(self):
        assert found("hidden-characters", **{".halo/INSTRUCTIONS.md": "👩‍💻 می‌خواهم ❤️ naïve\tx\n"}) == []

    def test_in_names_and_descriptions_they_do_not_get_into_a_prompt(self):
        files = {".halo/skills/sums/SKILL.md": skill("x", name="sums", description="Adds\u200b up.")}
        assert found("hidden-characters", **files) == []
        assert all("\u200b" not in p.compiled.prompt for p in take(tree({**SOUND, **files})).prompts)


class TestSecrets:
    @pytest.mark.parametrize(
        "line",
        [
            "key AKIA" + "Z7QX4M2PLB9TKW3D",
            "use sk-ant-" + "api03-Zk3v8Qw1Lm9Xc5Vb7Nn2",
            "ghp_" + "a8Kd93Lz0Qw7Er5Ty1Ui4Op6As2Df3Gh9Jk8",
            "-----BEGIN RSA " + "PRIVATE KEY-----",
            "The admin password is: t7Kq!9vLx2Zp",
            "api_key = '9f8e7d6c5b4a39281706f5e4'",
        ],
    )
    def test_a_credential_in_a_layer(self, line):
        ((source, number, message),) = found("secret-in-layer", **{".halo/INSTRUCTIONS.md": f"x\n\n{line}\n"})
        assert (source, number) == ("workspace:.halo/INSTRUCTIONS.md", 3)
        assert line.split()[-1].strip("'") not in message

    @pytest.mark.parametrize(
        "line",
        [
            "Set api_key: <<OPENAI_API_KEY>>",
            "token: {{x.params.token}}",
            "password: your-password-here-1",
            "The token is never longer than eight characters.",
            "secret: https://example.org/where-to-find-it-2024",
            "See sk-learn for details",
            "api_key=xxxxxxxxxxxxxxxx1",
        ],
    )
    def test_what_only_speaks_of_one(self, line):
        assert credential_in(line) == ""

    def test_a_literal_secret_in_the_committed_settings(self):
        files = {".halo/settings.yaml": "openai:\n  secrets:\n    api_key: abcdef123456\n"}
        ((_, line, message),) = found("committed-secret", **files)
        assert line == 3
        assert "abcdef123456" not in message
        assert (
            found("committed-secret", **{".halo/settings.yaml": "openai: {secrets: {api_key: <<K>>}}\n"})
            == []
        )

    @pytest.mark.parametrize(
        ("settings", "config", "place"),
        [
            ("sums: {params: {pin: hunter2}}\n", "", "settings.yaml"),
            ("", ", default: hunter2", "skills/sums/config.yaml"),
        ],
    )
    def test_a_parameter_that_is_declared_a_secret_is_one_too(self, settings, config, place):
        files = {
            ".halo/settings.yaml": settings,
            ".halo/skills/sums/config.yaml": f"params: [{{key: pin, secret: true{config}}}]\n",
        }
        ((source, line, message),) = found("committed-secret", **files)
        assert (source, line) == (f"workspace:.halo/{place}", 1)
        assert "hunter2" not in message

    @pytest.mark.parametrize("value", ["<<PIN>>", "Bearer <<PIN>>"])
    def test_one_that_names_a_variable_is_not(self, value):
        files = {
            ".halo/settings.yaml": f"sums: {{params: {{pin: {value}}}}}\n",
            ".halo/skills/sums/config.yaml": "params: [{key: pin, secret: true}]\n",
        }
        assert found("committed-secret", **files) == []

    def test_a_second_one_counts_where_the_first_is_an_example(self):
        line = "not AKIA" + "EXAMPLE000000000 but AKIA" + "Z7QX4M2PLB9TKW3D"
        assert credential_in(line) == "an AWS access key"

    def test_few_shots_are_told_too(self):
        turns = "- user: hello\n- assistant: the password is t7Kq9vLx2Zpw\u200b\n"
        files = {".halo/agents/default/fewshots/a.yaml": turns}
        place = ("workspace:.halo/agents/default/fewshots/a.yaml", 2)
        for code in ("secret-in-layer", "hidden-characters"):
            ((source, line, _),) = found(code, **files)
            assert (source, line) == place
        above = turns.replace("- assistant", "# halo: ignore H701, H702\n- assistant")
        result = report(**{".halo/agents/default/fewshots/a.yaml": above})
        assert (result.failed, result.suppressed) == (False, 2)

    @pytest.mark.parametrize("run", ["a-", "eyJ-", "password", "-----BEGIN "])
    def test_a_long_line_of_anything_comes_to_an_end(self, run):
        """Each of these once took a time that grew with the square of the length."""
        assert credential_in(run * 20_000) == ""


class TestNamesAndLinks:
    def test_a_broken_link_in_the_index(self):
        text = (
            "# Docs\n\n- [a](docs/a.md)\n- [b](docs/b.md#top)\n- [w](https://example.org)\n- [c](../x.md)\n"
        )
        broken = found("broken-link", **{".halo/INDEX.md": text, "docs/a.md": ""})
        assert [(line, message.split()[0]) for _, line, message in broken] == [
            (4, "docs/b.md"),
            (6, "../x.md"),
        ]

    def test_paths_as_code_that_list_items_of_the_index_begin_with(self):
        text = (
            "# Docs\n\n- `docs/a.md`: there\n- `docs/b.md`: gone\n- `old/`: gone\n- see `docs/c.md`\n"
            "- `halo check`: a command\n- `v1.2`: a version\n- `*.md`: a pattern\n\n`d.md` is no item\n"
        )
        broken = [
            f for f in report(**{".halo/INDEX.md": text, "docs/a.md": ""}).findings if f.code == "broken-link"
        ]
        assert [(f.line, f.message.split()[0], f.severity) for f in broken] == [
            (4, "docs/b.md", "info"),
            (5, "old/", "info"),
        ]

    def test_a_context_file_that_is_nowhere(self):
        settings = "general:\n  prompt:\n    context_files:\n    - SOUL.md\n    - SUOL.md\n"
        files = {".halo/settings.yaml": settings, ".halo/SOUL.md": "Soul.\n"}
        ((source, line, message),) = found("context-file-missing", **files)
        assert (source, line) == ("workspace:.halo/settings.yaml", 5)
        assert ".halo/SUOL.md" in message
        assert found("context-file-missing", **files, **{"global:SUOL.md": "x\n"}) == []

    def test_names_that_collide_where_case_is_ignored(self):
        files = {".halo/prompts/all/Rules.md": "x", ".halo/skills/Sums/SKILL.md": skill("x", description="d")}
        assert {s for s, _, _ in found("case-collision", **files)} == {
            "workspace:.halo/prompts/all",
            "workspace:.halo/skills",
        }

    def test_directories_with_rules_that_collide(self):
        files = {"pkg/.halo/INSTRUCTIONS.md": "x", "Pkg/.halo/INSTRUCTIONS.md": "y"}
        assert len(found("case-collision", **files)) == 1


class TestAgentsAndSettings:
    @pytest.mark.parametrize("word", sorted(WORDS))
    def test_a_skill_that_users_cannot_invoke_because_a_command_has_its_name(self, word):
        path = f".halo/skills/{word}/SKILL.md"
        told = found("skill-command", **{path: skill("x", name=word, description="Does it.")})
        assert [(source, line) for source, line, _ in told] == [(f"workspace:{path}", 2)]
        text = skill("x", name=word, description="Does it.").replace(
            "name:", "user-invocable: false\nname:", 1
        )
        assert found("skill-command", **{path: text}) == []

    def test_halos_own_words_are_those_of_its_commands(self):
        assert set(COMMANDS) == WORDS

    def test_an_agent_on_no_team_and_a_skill_that_nobody_lists(self):
        files = {
            ".halo/agents/lone/agent.yaml": agent(description="alone"),
            ".halo/agents/lone/AGENT.md": "x",
            ".halo/skills/left/SKILL.md": skill("x", name="left", description="Left."),
        }
        assert [s for s, _, _ in found("unused-agent", **files)] == ["workspace:.halo/agents/lone/agent.yaml"]
        assert [s for s, _, _ in found("unused-skill", **files)] == ["workspace:.halo/skills/left/SKILL.md"]

    def test_an_agent_without_text_or_description(self):
        files = {".halo/agents/helper/AGENT.md": None, ".halo/agents/helper/agent.yaml": agent()}
        assert len(found("agent-without-text", **files)) == 1
        assert len(found("agent-without-description", **files)) == 1

    def test_values_of_nobody_and_of_somebody_who_declares_nothing(self):
        files = {".halo/settings.yaml": "sum:\n  params: {k: v}\nsums:\n  params:\n    k: v\n"}
        ((_, line, message),) = found("unclaimed-value", **files)
        assert line == 2
        assert "sums" in message
        assert [line for _, line, _ in found("undeclared-value", **files)] == [5]

    def test_a_value_that_does_not_fit(self):
        files = {
            ".halo/skills/sums/config.yaml": "params: [{key: port, type: int}]\n",
            ".halo/settings.yaml": "sums:\n  params:\n    port: many\n",
        }
        ((source, line, message),) = found("unfit-value", **files)
        assert (source, line) == ("workspace:.halo/settings.yaml", 3)
        assert message == "sums.params.port is not a whole number"  # the value may be a secret

    def test_it_is_said_once_where_a_prompt_needs_it(self):
        files = {
            ".halo/skills/sums/config.yaml": "params: [{key: port, type: int}]\n",
            ".halo/skills/sums/SKILL.md": skill("{{params.port}}", name="sums", description="Adds up."),
            ".halo/settings.yaml": "sums: {params: {port: many}}\n",
        }
        assert [f.code for f in report(**files).findings if f.severity == "error"] == ["unfit-value"]

    def test_an_undeclared_value_and_the_declared_one_that_is_near(self):
        files = {
            ".halo/skills/sums/config.yaml": "params: [{key: port, type: int}]\nsecrets: [{key: api_key}]\n",
            ".halo/settings.yaml": ("sums:\n  params: {prot: 80, zone: x}\n  secrets: {api_kee: <<KEY>>}\n"),
        }
        messages = {m.split()[0]: m for _, _, m in found("undeclared-value", **files)}
        assert messages["sums.params.prot"].endswith("; did you mean 'port'?")
        assert messages["sums.params.zone"].endswith("of 'sums'")
        assert messages["sums.secrets.api_kee"].endswith("; did you mean 'api_key'?")

    def test_every_mistake_of_an_agent_is_named_at_its_line(self):
        text = (
            "model: {provider: openai, id: m}\ndescription: helps\n"
            "tools:\n- grpe\n- grep\n- file_raed\nskills:\n- sum\nteam:\n- nobody\n- default\n"
        )
        errors = found("does-not-compile", **{".halo/agents/helper/agent.yaml": text})
        assert [(line, message.partition(" (")[0]) for _, line, message in errors] == [
            (4, "unknown tool 'grpe'"),
            (6, "unknown tool 'file_raed'"),
            (8, "skills: unknown skill 'sum'"),
            (10, "team: unknown agent 'nobody'"),
        ]
        assert all("did you mean" in message for _, _, message in errors[:3])

    def test_placeholders_where_nothing_resolves_them(self):
        files = {
            ".halo/agents/helper/agent.yaml": agent(
                name="Help", description="helps {{user_name}}", system_prompt="It is {{now}}."
            ),
            ".halo/skills/sums/SKILL.md": skill("x", name="sums", description="Adds {{args}}."),
        }
        literal = [(s, n, m.partition(" stays")[0]) for s, n, m in found("placeholder-literal", **files)]
        assert literal == [
            ("workspace:.halo/agents/helper/agent.yaml", 2, "{{user_name}} in description"),
            ("workspace:.halo/skills/sums/SKILL.md", 3, "{{args}} in description"),
        ]
        alone = {**files, ".halo/agents/helper/AGENT.md": None}
        assert "{{now}} in system_prompt" in str(found("placeholder-literal", **alone))

    def test_one_broken_file_does_not_hide_the_rest(self):
        files = {
            ".halo/skills/sums/config.yaml": "parms: []\n",
            ".halo/INDEX.md": "[gone](gone.md)\n",
        }
        ((source, line, message),) = found("does-not-compile", **files)
        assert (source, line) == ("workspace:.halo/skills/sums/config.yaml", 1)
        assert "did you mean 'params'?" in message
        assert len(found("broken-link", **files)) == 1


class TestEndpoints:
    @pytest.mark.parametrize(
        ("endpoint", "cure"),
        [
            ("localhost:8080", "write http://localhost:8080"),
            ("127.0.0.1:11434/v1", "write http://127.0.0.1:11434/v1"),
            ("api.example.com/v1", "write https://api.example.com/v1, or http://api.example.com/v1"),
            ("ftp://localhost", "write it as https://host[:port][/path]"),
            ("http://u:pw@localhost", "write it as https://host[:port][/path]"),
        ],
    )
    def test_one_that_is_no_address_is_told_with_its_line_and_what_to_write(self, endpoint, cure):
        model = f"{{provider: openai, id: m, endpoint: '{endpoint}'}}"
        settings = f"general:\n  models:\n    aliases:\n      near: {model}\n"
        files = {".halo/agents/helper/agent.yaml": f"model:\n  {model}\n", ".halo/settings.yaml": settings}
        told = found("unfit-endpoint", **files)
        assert [(source.rpartition("/")[2], line) for source, line, _ in told] == [
            ("agent.yaml", 2),
            ("settings.yaml", 4),
        ]
        for _, _, message in told:
            assert cure in message
            assert "u:pw" not in message

    @pytest.mark.parametrize(
        "endpoint", ["", "http://localhost:8080", "https://api.example.com/v1", " http://[::1]/ "]
    )
    def test_an_address_is_fine(self, endpoint):
        model = f"{{provider: openai, id: m, endpoint: '{endpoint.strip()}'}}"
        assert found("unfit-endpoint", **{".halo/agents/helper/agent.yaml": f"model: {model}\n"}) == []


class TestSuppression:
    TEXT = "# Rules\n\n<!-- halo: ignore H702 it is a test account -->\npassword: t7Kq9vLx2Zpw\n"

    def test_a_remark_above_the_line_switches_one_rule_off(self):
        result = report(**{".halo/INSTRUCTIONS.md": self.TEXT})
        assert [f for f in result.findings if f.code in ("secret-in-layer", "unused-suppression")] == []
        assert result.suppressed == 1
        assert not result.failed

    def test_it_is_not_for_the_model_and_lines_still_lead_home(self):
        subject = take(tree({**SOUND, ".halo/INSTRUCTIONS.md": self.TEXT + "after\n"}))
        text = next(p for p in subject.prompts if p.target.label == "default · root")
        assert "halo: ignore" not in text.compiled.prompt
        assert "# Rules\n\npassword: t7Kq9vLx2Zpw\nafter\n" in text.compiled.prompt
        lines = {line.text: line.origins[0].line for line in text.lines}
        assert (lines["password: t7Kq9vLx2Zpw"], lines["after"]) == (4, 5)

    def test_in_yaml_it_stands_at_the_line_or_above(self):
        for text in (
            "gone: {params: {k: v}}  # halo: ignore H503\n",
            "# halo: ignore H503\ngone: {params: {k: v}}\n",
        ):
            assert found("unclaimed-value", **{".halo/settings.yaml": text}) == []

    def test_one_that_switches_off_nothing_is_said(self):
        ((_, line, message),) = found(
            "unused-suppression", **{".halo/INSTRUCTIONS.md": "<!-- halo: ignore H601 -->\nx\n"}
        )
        assert (line, "H601" in message) == (1, True)

    @pytest.mark.parametrize(
        "named", ["h702", "secret-in-layer", "Secret-In-Layer", "H701, secret-in-layer it is a test account"]
    )
    def test_a_rule_is_named_by_number_or_code_in_any_case(self, named):
        text = self.TEXT.replace("H702 it is a test account", named)
        result = report(**{".halo/INSTRUCTIONS.md": text})
        assert result.suppressed == 1
        assert not result.failed
        prompts = take(tree({**SOUND, ".halo/INSTRUCTIONS.md": text})).prompts
        assert all("<!--" not in prompt.compiled.prompt for prompt in prompts)

    @pytest.mark.parametrize(
        "remark",
        [
            "<!-- halo: ignore-file H702 -->",
            "<!-- halo: ignore -->",
            "<!-- halo: ignore all of it -->",
            "<!-- halo: ignore H7022 -->",
            "<!-- Halo: skip H702 -->",
            "<!-- halo: ignore H702",
            "<!-- halo: ignore H702 --> password: t7Kq9vLx2Zpw",
        ],
    )
    def test_one_that_is_not_understood_is_said_and_stays_in_the_prompt(self, remark):
        files = {".halo/INSTRUCTIONS.md": f"# Rules\n\n{remark}\npassword: t7Kq9vLx2Zpw\n"}
        ((source, line, message),) = found("unknown-suppression", **files)
        assert (source, line) == ("workspace:.halo/INSTRUCTIONS.md", 3)
        assert "H702 or secret-in-layer" in message
        assert found("secret-in-layer", **files)
        root = next(p for p in take(tree({**SOUND, **files})).prompts if p.target.label == "default · root")
        assert f"{remark}\n" in root.compiled.prompt

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("H999", "there is no rule H999"),
            ("secrt-in-layer", "there is no rule secrt-in-layer; did you mean 'secret-in-layer'?"),
        ],
    )
    def test_a_rule_that_does_not_exist(self, name, said):
        files = {".halo/INSTRUCTIONS.md": f"<!-- halo: ignore {name} -->\nx\n"}
        assert found("unknown-suppression", **files) == [("workspace:.halo/INSTRUCTIONS.md", 1, said)]
        yaml = {".halo/settings.yaml": f"gone: {{params: {{k: v}}}}  # halo: ignore {name}\n"}
        assert found("unknown-suppression", **yaml) == [("workspace:.halo/settings.yaml", 1, said)]
        assert found("unclaimed-value", **yaml)


class TestReports:
    FILES: ClassVar = {
        ".halo/INSTRUCTIONS.md": "pass\u200bword: t7Kq9vLx2Zpw\n",
        ".halo/skills/a,b%c/SKILL.md": "x",
    }

    def test_text_has_a_line_a_finding_and_the_sums(self):
        lines = reports.as_text(report(**self.FILES)).splitlines()
        assert any(
            re.fullmatch(r"\.halo/INSTRUCTIONS\.md:1: error: .* \[H701 hidden-characters\]", line)
            for line in lines
        )
        assert re.match(r"\d+ errors?", lines[-1])

    def test_json_names_every_field(self):
        result = report(**self.FILES)
        data = json.loads(reports.as_json(result))
        assert data["format"] == 1
        assert len(data["findings"]) == len(result.findings)
        assert set(data["findings"][0]) == {"rule", "code", "severity", "message", "source", "line"}

    def test_sarif_is_what_viewers_read(self):
        log = json.loads(reports.as_sarif(report(**self.FILES), "1.2.3"))
        validate = fastjsonschema.compile(SARIF)
        validate(log)
        (run,) = log["runs"]
        for result in run["results"]:
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]

    def test_files_are_named_from_the_top_of_the_repository(self):
        result = report(**self.FILES, **{"global:USER.md": "x", "global:agents/g/agent.yaml": "tols: 1"})
        (run,) = json.loads(reports.as_sarif(result, "1", "svc/"))["runs"]
        places = [
            r["locations"][0]["physicalLocation"]["artifactLocation"]
            for r in run["results"]
            if "locations" in r
        ]
        assert {"uri": "svc/.halo/INSTRUCTIONS.md", "uriBaseId": "%SRCROOT%"} in places
        assert "%SRCROOT%" in run["originalUriBaseIds"]
        assert "agents/g/agent.yaml" in [place["uri"] for place in places if "uriBaseId" not in place]
        assert "file=svc/.halo/INSTRUCTIONS.md,line=1," in reports.as_github(result, "svc/")

    def test_github_annotations_are_escaped(self):
        for line in reports.as_github(report(**self.FILES)).splitlines():
            assert re.fullmatch(r"::(notice|warning|error) [^:]*(?:%3A[^:]*)*::.+", line), line


# The parts of the SARIF 2.1.0 schema that a log of ours uses.
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name"],
                                "properties": {"rules": {"items": {"required": ["id"]}}},
                            }
                        },
                    },
                    "results": {
                        "items": {
                            "required": ["message"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"]},
                                "locations": {
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "properties": {
                                                            "uri": {
                                                                "type": "string",
                                                                "pattern": "^[^ \\\\]+$",
                                                            }
                                                        }
                                                    },
                                                    "region": {"properties": {"startLine": {"minimum": 1}}},
                                                },
                                            }
                                        }
                                    }
                                },
                            },
                        }
                    },
                },
            }
        },
    },
}


def test_every_code_in_the_source_has_a_number_and_a_section():
    codes = set()
    for path in (REPOSITORY / "halo").rglob("*.py"):
        codes.update(re.findall(r'\bDiagnostic\(\s*"([a-z-]+)"', path.read_text(encoding="utf-8")))
    assert codes == set(RULES)
    numbers = [rule.number for rule in RULES.values()]
    assert len(set(numbers)) == len(numbers)
    page = (REPOSITORY / "docs/reference/diagnostics.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^## H\d{3} ", page, re.MULTILINE)) == len(RULES)
    for rule in RULES.values():
        section = page.partition(f"\n## {rule.number} `{rule.code}`\n")[2].partition("\n## ")[0]
        for part in ("**Why.**", "**Example.**", "**Fix.**"):
            assert part in section, (rule.code, part)
