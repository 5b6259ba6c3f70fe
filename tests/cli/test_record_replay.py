"""`halo run --record DIR` and `--replay DIR`: turns that are told offline, on another machine, on another day."""

import json

import msgspec
import pytest
from making import agent

from halo.cli.main import run
from halo.records.events import TYPES, UsageReported
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder

KEY = "sk-test-0123456789abcdef"
SECRET = "hunter2-correct-horse"


def chat(delta, finish="stop", cached=0):
    def chunk(delta, finish=None, usage=None):
        choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": choices, "usage": usage}  # fmt: skip

    usage = {"prompt_tokens": 3000, "completion_tokens": 2, "total_tokens": 3002, "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip
    return [chunk(delta), chunk({}, finish), chunk({}, usage=usage)]


def looks_at(path):
    call = {
        "index": 0,
        "id": "call_1",
        "function": {"name": "file_read", "arguments": json.dumps({"path": path})},
    }
    return chat({"tool_calls": [call]}, "tool_calls")


@pytest.fixture
def place(make_workspace, scripted, monkeypatch):
    """Make the same workspace again and again; each is entered, and its agent is at the scripted server."""

    def enter(endpoint=scripted.url, key=KEY, **files):
        made = make_workspace(
            {
                ".halo/agents/default/agent.yaml": agent(
                    model={"provider": "openai", "id": "m", "endpoint": f"{endpoint}/v1"}, tools=["file_read"]
                ),
                ".halo/agents/default/AGENT.md": "You are in {{workspace_root}}. It is {{now}}.\n",
                ".halo/settings.yaml": f"files:\n  secrets:\n    token: {SECRET}\n",
                "notes/a.md": "needle\n",
                **files,
            }
        )
        monkeypatch.chdir(made.root)
        monkeypatch.setenv("HALO_HOME", str(made.home))
        if key:
            monkeypatch.setenv("OPENAI_API_KEY", key)
        else:
            monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        return made

    return enter


def usages(ws):
    folder = SessionFolder(str(ws.halo / "sessions"), next(iter(session_ids(str(ws.halo / "sessions")))))
    return [
        msgspec.json.decode(e.data, type=TYPES[e.type])
        for e in folder.read_events()
        if TYPES.get(e.type) is UsageReported
    ]


def test_a_turn_with_tools_is_told_again_in_another_place_without_key_and_network(
    place, scripted, capfd, tmp_path
):
    first = place()
    scripted.says_chat(*looks_at("notes/a.md"))
    scripted.says_chat(*chat({"content": f"In {first.root} it says {KEY} and {SECRET}."}))
    assert run(["run", "-n", "--record", str(tmp_path / "tape"), "What is there?"]) == 0
    files = sorted((tmp_path / "tape").iterdir())
    assert len(files) == 2
    text = "".join(f.read_text() for f in files)
    for kept_out in (KEY, SECRET, str(first.root), scripted.url, "authorization"):
        assert kept_out not in text
    assert "{{workspace_root}}" in text

    capfd.readouterr()
    second = place(endpoint="http://127.0.0.1:9", key="")
    assert run(["run", "-n", "--replay", str(tmp_path / "tape"), "What is there?"]) == 0
    out, err = capfd.readouterr()
    assert f"In {second.root} it says" in out
    assert "file_read" in err
    assert len(scripted.requests) == 2
    assert sorted((tmp_path / "tape").iterdir()) == files


def test_a_miss_names_the_source_that_changed(place, scripted, capfd, tmp_path):
    tape = str(tmp_path / "tape")
    place()
    scripted.says_chat(*chat({"content": "Hello."}))
    assert run(["run", "-n", "--record", tape, "Hi"]) == 0
    place(**{".halo/agents/default/AGENT.md": "You are at {{workspace_root}}. It is {{now}}.\n"})
    capfd.readouterr()
    assert run(["run", "-n", "--replay", tape, "Hi"]) == 1
    err = capfd.readouterr().err
    assert f"no recording in {tape} answers this request; the nearest of 1" in err
    assert "workspace:.halo/agents/default/AGENT.md" in err
    assert "You are in" in err
    assert "You are at" in err
    assert "--record" in err


def test_a_checkout_that_nobody_trusts_misses_and_says_so(place, scripted, capfd, tmp_path):
    """Its agents only read, so the request has other tools than the recorded one."""
    tape = str(tmp_path / "tape")
    model = {"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1"}
    layers = {
        ".halo/agents/default/agent.yaml": agent(model=model, tools=["grep", "file_write", "shell_exec"])
    }
    place(**layers)
    assert run(["trust", "--yes"]) == 0
    scripted.says_chat(*chat({"content": "Hello."}))
    assert run(["run", "-n", "--record", tape, "Hi"]) == 0
    place(**layers)
    capfd.readouterr()
    assert run(["run", "-n", "--replay", tape, "Hi"]) == 1
    err = capfd.readouterr().err
    assert (
        "differs first in the tools: recorded with other tools: file_write, shell_exec are missing here; the "
        "recording was made with workspace access or more, here it is readonly\n"
        "  allow this workspace what its tools need (halo trust), or record it again"
    ) in err
    # As it is said: once that is allowed, the recording answers.
    assert run(["trust", "--yes"]) == 0
    assert run(["run", "-n", "--replay", tape, "Hi"]) == 0
    assert "Hello." in capfd.readouterr().out
    # The other way round: who records with less access is told as much.
    assert run(["run", "-n", "--access", "readonly", "--replay", tape, "Hi"]) == 1
    assert "here it is readonly" in capfd.readouterr().err


def test_mistakes_are_told_before_anything_is_made(place, capfd):
    ws = place()
    assert run(["run", "--record", "a", "--replay", "b", "Hi"]) == 2
    assert "choose one" in capfd.readouterr().err
    assert run(["run", "--replay", "nowhere", "Hi"]) == 2
    assert "nowhere is no folder" in capfd.readouterr().err
    assert not (ws.halo / "sessions").exists()


def test_a_model_file_is_not_needed_and_not_asked_about(place, scripted, tmp_path, capfd):
    """The workspace names a model file that nobody allowed: a replay never touches it."""
    place(**{".halo/agents/default/agent.yaml": agent(model={"provider": "local", "id": "./m.gguf"})})
    (tmp_path / "tape").mkdir()
    assert run(["run", "--replay", str(tmp_path / "tape"), "Hi"]) == 1
    assert "no recording in" in capfd.readouterr().err


class TestExpectedHits:
    """What a provider that keeps a promise should have in its cache, from one process to the next."""

    @pytest.fixture
    def own(self, monkeypatch):
        """Take the scripted server for the provider's own."""
        monkeypatch.setattr("halo.models.cache_rules.is_own", lambda provider, endpoint: True)

    def stable(self, place, text="You are a.\n"):
        return place(**{".halo/agents/default/AGENT.md": text})

    def test_a_session_that_goes_on_expects_what_it_sent(self, place, scripted, own, capfd):
        ws = self.stable(place)
        scripted.says_chat(*chat({"content": "One."}))
        scripted.says_chat(*chat({"content": "Two."}, cached=2944))
        assert run(["run", "One?"]) == 0
        assert run(["run", "Two?"]) == 0
        assert [u.expected for u in usages(ws)] == [0, 2944]
        assert len({u.prefix for u in usages(ws)}) == 1
        assert "provider's cache" not in capfd.readouterr().err

    def test_a_loss_is_told(self, place, scripted, own, capfd):
        self.stable(place)
        scripted.says_chat(*chat({"content": "One."}))
        scripted.says_chat(*chat({"content": "Two."}, cached=0))
        run(["run", "One?"])
        run(["run", "Two?"])
        err = capfd.readouterr().err
        assert "warning: of 2,944 tokens" in err
        assert "the system text is the same" in err

    def test_a_slot_that_changes_with_each_turn_is_why(self, place, scripted, own, capfd):
        ws = self.stable(place, "You are a. It is {{now}}.\n")
        scripted.says_chat(*chat({"content": "One."}))
        scripted.says_chat(*chat({"content": "Two."}, cached=0))
        run(["run", "One?"])
        run(["run", "Two?"])
        assert "the value of a slot has changed" in capfd.readouterr().err
        assert len({u.prefix for u in usages(ws)}) == 2

    def test_another_artifact_expects_nothing(self, place, scripted, own, capfd):
        ws = self.stable(place)
        for _ in range(2):
            scripted.says_chat(*chat({"content": "x"}))
        run(["run", "One?"])
        ws.write({".halo/agents/default/AGENT.md": "You are b.\n"})
        run(["run", "Two?"])
        assert [u.expected for u in usages(ws)] == [0, 0]
        assert "provider's cache" not in capfd.readouterr().err

    def test_a_tape_that_is_played_has_no_cache(self, place, scripted, own, capfd):
        ws = self.stable(place)
        scripted.says_chat(*chat({"content": "One."}))
        scripted.says_chat(*chat({"content": "Two."}))
        assert run(["run", "--record", "tape", "One?"]) == 0
        assert run(["run", "--record", "tape", "Two?"]) == 0
        known = set(session_ids(str(ws.halo / "sessions")))
        capfd.readouterr()
        assert run(["run", "-n", "--replay", "tape", "One?"]) == 0
        (again,) = set(session_ids(str(ws.halo / "sessions"))) - known
        assert run(["run", "-s", again, "--replay", "tape", "Two?"]) == 0
        assert "provider's cache" not in capfd.readouterr().err
