"""`--profile`: the same layers with other models, through the commands, with a real model."""

import json
import os

import msgspec
import pytest
from making import agent

from halo.cli.main import run
from halo.cli.quick import answer
from halo.errors import StartError
from halo.records.events import TYPES, TurnStarted, UsageReported
from halo.records.session_events import SessionCreated
from halo.records.targets import AgentTarget
from halo.sessions.desk import Desk
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder

MODEL = "smollm2-135m-instruct"
LOCAL = {"provider": "local", "id": MODEL, "temperature": 0, "seed": 7, "max_tokens": 24}
HOSTED = {"provider": "anthropic", "id": "claude-sonnet-4-5"}
AWAY = "https://models.example.com/v1"
QUESTION = "What is the capital of France?"


def models(**block):
    return json.dumps({"general": {"models": block}})


@pytest.fixture
def ws(make_workspace, monkeypatch):
    """A workspace whose agent is bound to a hosted model, as the current directory; there is no key."""
    made = make_workspace(
        {
            ".halo/USER.md": "Mira asks short questions.\n",
            ".halo/prompts/all/x.md": "Answer in one sentence.\n",
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=HOSTED),
            ".halo/agents/default/AGENT.md": "You are a helpful assistant.\n",
            ".halo/settings.yaml": models(aliases={"tiny": LOCAL}, profiles={"ci": {"default": "tiny"}}),
        }
    )
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


def sessions(ws):
    return list(session_ids(str(ws.halo / "sessions")))


def events(ws, kind):
    folder = SessionFolder(str(ws.halo / "sessions"), sessions(ws)[0])
    decoded = (msgspec.json.decode(e.data, type=TYPES[e.type]) for e in folder.read_events())
    return [data for data in decoded if isinstance(data, kind)]


class TestPrompt:
    def test_the_text_is_the_same(self, ws, capfd):
        assert run(["prompt"]) == 0
        plain = capfd.readouterr().out
        assert run(["prompt", "--profile", "ci"]) == 0
        assert capfd.readouterr().out == plain

    def test_each_profile_has_an_artifact_of_its_own(self, ws):
        assert run(["prompt", "--profile", "ci", "--role", "sub"]) == 0
        assert "default/sub+profile-ci" in ws.pointers()

    def test_one_that_is_built_is_fresh_and_stale_when_the_settings_change(self, ws, capfd):
        assert run(["prompt", "--profile", "ci", "--frozen"]) == 1
        assert run(["prompt", "--profile", "ci"]) == 0
        assert run(["prompt", "--profile", "ci", "--frozen"]) == 0
        ws.write({".halo/settings.yaml": models(profiles={"ci": {"default": {**LOCAL, "seed": 8}}})})
        assert run(["prompt", "--profile", "ci", "--frozen"]) == 1

    def test_a_build_keeps_what_was_made_on_request(self, ws):
        assert run(["prompt", "--profile", "ci"]) == 0
        assert run(["build"]) == 0
        assert "default/root+profile-ci" in ws.pointers()

    def test_an_unknown_one_is_the_users_mistake(self, ws, capfd):
        assert run(["prompt", "--profile", "c1"]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert err == "halo: unknown profile 'c1'\n  known: ci\n"

    def test_a_name_that_is_no_file_name_does_no_harm(self, ws, capfd):
        assert run(["prompt", "--profile", "../../x"]) == 2
        assert "unknown profile '../../x'" in capfd.readouterr().err
        assert not list(ws.root.glob("x*"))

    def test_the_quick_answer_leaves_it_to_the_command(self, ws):
        assert run(["prompt"]) == 0
        assert answer(["prompt", "--profile", "ci"]) is None

    def test_a_catalogue_edit_of_another_model_leaves_it_fresh(self, ws):
        text = "name: A\nmodels:\n  claude-sonnet-4-5: {as_of: 2026-01-01, window: 1000}\n"
        ws.write({".halo/models/anthropic.yaml": text})
        builder, target = ws.builder, AgentTarget("default")
        assert builder.ensure(target).manifest.runtime.context_tokens == 1000
        ws.write({".halo/models/anthropic.yaml": text + "  other: {as_of: 2026-01-01}\n"})
        assert builder.status(target).reason == ""
        ws.write({".halo/models/anthropic.yaml": text.replace("1000", "2000")})
        assert builder.status(target).reason == "workspace:.halo/models/anthropic.yaml changed"
        assert builder.ensure(target).manifest.runtime.context_tokens == 2000


class TestRun:
    def test_a_hosted_agent_answers_on_this_machine(self, ws, monkeypatch, shared_cache, capfd):
        """What CI wants: no key, no network, the same prompt."""
        monkeypatch.setenv("HALO_CACHE", shared_cache)
        assert run(["run", "--profile", "ci", QUESTION]) == 0
        out, err = capfd.readouterr()
        assert out == "The capital of France is Paris.\n"
        assert MODEL in err
        assert events(ws, UsageReported)[0].model == MODEL
        profiled = ws.builder.fresh(AgentTarget("default", profile="ci"))
        assert events(ws, TurnStarted)[0].artifact == profiled.id
        plain = ws.builder.ensure(AgentTarget("default"))
        assert events(ws, TurnStarted)[0].fingerprint == plain.manifest.fingerprint

    def test_without_it_the_key_is_missing_and_no_session_begins(self, ws, capfd):
        assert run(["run", QUESTION]) == 3
        assert "ANTHROPIC_API_KEY" in capfd.readouterr().err
        assert sessions(ws) == []

    def test_an_unknown_one_leaves_no_trace(self, ws, capfd):
        assert run(["run", "--profile", "c1", QUESTION]) == 2
        assert "known: ci" in capfd.readouterr().err
        assert sessions(ws) == []

    def test_a_session_does_not_remember_it(self, ws, scripted, capfd, monkeypatch):
        """Each turn names its own; the conversation goes on, whoever answers."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
        near = {"provider": "openai", "endpoint": scripted.url + "/v1"}
        ws.write(
            {
                ".halo/agents/default/agent.yaml": agent(model={**near, "id": "own"}),
                ".halo/settings.yaml": models(profiles={"ci": {"default": {**near, "id": "other"}}}),
            }
        )
        for options in ([], ["--profile", "ci"], []):
            scripted.says_chat(
                {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
            )
            assert run(["run", *options, "Go."]) == 0
        assert [request.json["model"] for request in scripted.requests] == ["own", "other", "own"]
        assert len(sessions(ws)) == 1
        assert not hasattr(events(ws, SessionCreated)[0].target, "profile")
        artifacts = [started.artifact for started in events(ws, TurnStarted)]
        assert artifacts[0] == artifacts[2] != artifacts[1]
        assert len(scripted.requests[2].json["messages"]) == 6


FAR_AWAY = {
    ".halo/settings.yaml": models(
        aliases={"far": {"provider": "anthropic", "id": "m", "endpoint": AWAY}},
        profiles={"ci": {"default": {"provider": "openai", "id": "m", "endpoint": AWAY}}},
    ),
    ".halo/agents/far/agent.yaml": "model: far\n",
}


class TestTrust:
    """An endpoint of the workspace's settings is asked for like one of its agents."""

    @pytest.mark.parametrize("options", [["-a", "far"], ["--profile", "ci"]])
    def test_nothing_goes_there_before_it_is_trusted(self, ws, capfd, monkeypatch, options):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-key")
        ws.write(FAR_AWAY)
        assert run(["run", *options, "Hello."]) == 3
        err = capfd.readouterr().err
        assert "models.example.com" in err
        assert "halo trust" in err
        assert sessions(ws) == []

    def test_trust_shows_where_it_stands(self, ws, capfd):
        ws.write(FAR_AWAY)
        assert run(["trust", "-y"]) == 0
        assert capfd.readouterr().out.splitlines() == [
            f"settings.yaml: general.models.aliases.far talks to {AWAY} as anthropic, with that provider's key",
            f"settings.yaml: general.models.profiles.ci.default talks to {AWAY} as openai, with that provider's key",
            "your own agents, and those of Halo, may use all their tools here, not only read",
        ]

    @pytest.mark.parametrize(
        "target",
        [AgentTarget("far"), AgentTarget("default", profile="ci"), AgentTarget("mine", profile="ci")],
    )
    def test_what_was_trusted_opens_and_a_change_closes_it(self, ws, target):
        """For an agent of the user's own folder too: the endpoint is the workspace's."""
        ws.write({**FAR_AWAY, "global:agents/mine/agent.yaml": agent(model=HOSTED)})
        keys = {"OPENAI_API_KEY": "sk-test-key", "ANTHROPIC_API_KEY": "sk-test-key"}

        def open_model():
            builder = ws.builder
            desk = Desk(builder, keys, os.environ.get("HALO_CACHE", "/nowhere"), ws.now_ns)
            return desk.adapter(builder.ensure(target), target)

        with pytest.raises(StartError, match="must not go"):
            open_model()
        assert run(["trust", "-y"]) == 0
        assert open_model().provider in ("openai", "anthropic")
        ws.write(
            {".halo/settings.yaml": FAR_AWAY[".halo/settings.yaml"].replace("example.com", "example.org")}
        )
        with pytest.raises(StartError, match="must not go"):
            open_model()


def test_init_seeds_the_catalogues(ws):
    assert run(["init", "--global"]) == 0
    assert sorted(p.name for p in (ws.home / "global" / "models").glob("*.yaml")) == [
        "anthropic.yaml",
        "deepseek.yaml",
        "gemini.yaml",
        "local.yaml",
        "openai.yaml",
    ]
