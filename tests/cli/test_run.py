"""`halo run`: turns with a real model, with the real clients against a real server, and with scripted faults."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import msgspec
import pytest
from making import agent, skill

from halo.cli.main import run
from halo.files.log import CheckedLog, read_log
from halo.models.catalogue import KNOWN_MODELS
from halo.models.retrying import Patience, RetryingAdapter
from halo.records.events import (
    TYPES,
    Event,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder

MODEL = "smollm2-135m-instruct"
LOCAL = {"provider": "local", "id": MODEL, "temperature": 0, "seed": 7, "max_tokens": 24}
PARIS = "The capital of France is Paris."
QUESTION = "What is the capital of France?"
SECRET = "hunter2-correct-horse"


@pytest.fixture
def ws(make_workspace, monkeypatch, shared_cache):
    """A workspace whose agents have short prompts, as the current directory; the model is in the cache."""
    made = make_workspace(
        {
            ".halo/USER.md": "Mira asks short questions.\n",
            ".halo/prompts/all/x.md": "Answer in one sentence.\n",
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=LOCAL),
            ".halo/agents/default/AGENT.md": "You are a helpful assistant.\n",
            "notes/a.md": "needle\n",
        }
    )
    monkeypatch.chdir(made.root)
    monkeypatch.setenv("HALO_HOME", str(made.home))
    monkeypatch.setenv("HALO_CACHE", shared_cache)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return made


def sessions(ws):
    return list(session_ids(str(ws.halo / "sessions")))


def events(ws, session=None):
    """(type, data) of every event of a session, by default the newest."""
    folder = SessionFolder(str(ws.halo / "sessions"), session or sessions(ws)[0])
    decoded = list(folder.read_events())
    assert all(isinstance(e, Event) for e in decoded)
    return [(e.type, msgspec.json.decode(e.data, type=TYPES[e.type])) for e in decoded]


def of(kind, recorded):
    return [data for _, data in recorded if isinstance(data, kind)]


def everything_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# the embedded model


def test_a_real_model_answers_and_the_session_holds_it(ws, capfd):
    assert run(["run", QUESTION]) == 0
    out, err = capfd.readouterr()
    assert out == PARIS + "\n"
    assert "prompt tokens" in err
    recorded = events(ws)
    assert [t for t, _ in recorded] == [
        "session.created",
        "turn.started",
        "message",
        "message",
        "usage",
        "turn.ended",
    ]
    usage = of(UsageReported, recorded)[0]
    assert usage.model == MODEL
    assert usage.usage.prompt > 20
    assert usage.usage.output > 3
    started = of(TurnStarted, recorded)[0]
    assert (ws.halo / "artifacts" / started.artifact / "prompt.md").exists()
    folder = ws.halo / "sessions"
    (transcript,) = folder.rglob("transcript.md")
    assert PARIS in transcript.read_text()


def test_a_new_process_restores_the_state_and_says_so(ws):
    """The state of the static prefix is saved once; a later process reads it instead of the prompt."""
    environ = {"HALO_CACHE": os.environ["HALO_CACHE"]}
    # A prefix of its own, so that no other test has saved it.
    ws.write({".halo/INSTRUCTIONS.md": "Restored states must be equal.\n" * 4})
    first = ws.cli("run", "-n", QUESTION, **environ)
    second = ws.cli("run", "-n", QUESTION, **environ)
    assert first.stdout == second.stdout
    assert "reading" in first.stderr
    assert "restored" in second.stderr
    newest, oldest = sessions(ws)[0], sessions(ws)[1]
    cold = of(UsageReported, events(ws, oldest))[0]
    warm = of(UsageReported, events(ws, newest))[0]
    assert cold.restored == 0
    assert warm.restored > 50
    assert warm.usage.read >= warm.restored - 1
    assert f"({warm.usage.read:,} cached)" in second.stderr


def test_states_are_made_ahead_of_time(ws, capfd):
    ws.write({".halo/INSTRUCTIONS.md": "Made ahead of time.\n"})
    (ws.halo / "agents" / "default" / "AGENT.md").write_text("You are an assistant that was prepared.\n")
    assert run(["build", "--kv"]) == 0
    assert "saved" in capfd.readouterr().err
    assert run(["run", "-n", QUESTION]) == 0
    assert "restored" in capfd.readouterr().err


def test_the_conversation_goes_on_in_the_newest_session(ws, capfd):
    """Without -s and -n the newest session goes on; -n begins one; -s names one."""
    assert run(["run", QUESTION]) == 0
    assert run(["run", "Thank you."]) == 0
    assert len(sessions(ws)) == 1
    assert [d.message.role for d in of(MessageAdded, events(ws))] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    first = sessions(ws)[0]
    time.sleep(1.01)  # ids are sortable to the second
    assert run(["run", "-n", QUESTION]) == 0
    assert len(sessions(ws)) == 2
    assert run(["run", "-s", first, "Again: what is the capital of France?"]) == 0
    assert len(of(TurnStarted, events(ws, first))) == 3
    capfd.readouterr()


def test_a_message_may_come_from_stdin_and_the_answer_as_json(ws):
    done = subprocess.run(
        [sys.executable, "-m", "halo", "run", "--format", "json"],
        input=QUESTION,
        cwd=ws.root,
        env=ws.environ(HALO_CACHE=os.environ["HALO_CACHE"]),
        capture_output=True,
        text=True,
        check=True,
    )
    reply = json.loads(done.stdout)
    assert reply["format"] == 1
    assert reply["text"] == PARIS
    assert reply["session"] == sessions(ws)[0]
    assert reply["model"] == MODEL
    assert reply["usage"]["output"] > 3


def test_the_tool_loop_runs_on_the_real_model(ws, capfd):
    """Constrained output makes calls of a tiny model dependable: what it writes is a call or an answer."""
    ws.write(
        {
            ".halo/agents/lister/agent.yaml": agent(
                model={**LOCAL, "tool_mode": "schema", "max_tokens": 60},
                tools=["file_list"],
                budgets={"turn": {"steps": 3}},
            ),
            ".halo/agents/lister/AGENT.md": "You list folders with the tool file_list.\n",
            # An example leads a tiny model better than words.
            ".halo/agents/lister/fewshots/a.yaml": (
                "- user: List the folder docs.\n"
                "- assistant: ''\n  calls:\n    - name: file_list\n      arguments: {path: docs}\n"
                "- results: [x.md]\n"
                "- assistant: x.md\n"
            ),
        }
    )
    # Whether it calls or answers at once hangs on every word, the path of this folder among them.
    ws.write({"docs/x.md": "x\n"})
    messages = ("List the folder notes.", "List the folder docs.", "List notes.", "Which files are in notes?")
    for message in (*messages, "List docs.", "file_list docs", '{"tool": "file_list"}'):
        assert run(["run", "-a", "lister", "-n", message]) in (0, 1)
        recorded = events(ws)
        results = of(ToolResultAdded, recorded)
        called = [c.id for d in of(MessageAdded, recorded) for c in d.message.calls]
        assert called == [r.result.call_id for r in results]
        assert of(TurnEnded, recorded)[0].reason in ("done", "steps", "storm")
        if any(r.tool == "file_list" and not r.result.is_error for r in results):
            break
    else:
        pytest.fail("it never called the tool")


# the real clients against the real server


@pytest.mark.parametrize(("provider", "suffix"), [("openai", "/v1"), ("anthropic", "")])
def test_real_clients_stream_from_a_real_server(ws, capfd, monkeypatch, llama_server, provider, suffix):
    """Two turns: usage is recorded, and the second turn reads the prompt from the server's cache."""
    model = {"provider": provider, "id": "smollm2", "endpoint": llama_server.url + suffix}
    model |= {"temperature": 0, "seed": 7, "max_tokens": 24}
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", llama_server.key)
    ws.write({".halo/agents/remote/agent.yaml": agent(model=model)})
    ws.write({".halo/agents/remote/AGENT.md": "You are a helpful assistant.\n"})
    assert run(["run", "-a", "remote", QUESTION]) == 0
    assert run(["run", "-a", "remote", "What is the capital of Spain?"]) == 0
    assert "Paris" in capfd.readouterr().out
    first, second = of(UsageReported, events(ws))
    assert first.provider == provider
    assert first.model
    assert first.usage.output > 0
    assert second.usage.read > 0
    assert second.usage.prompt > first.usage.prompt


# scripted servers: tool protocols and faults


def chat(*deltas, finish="stop", usage=True):
    """A streamed Chat Completions reply."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1"}
    chunks = [{**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        figures = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
        chunks.append(
            {**base, "choices": [], "usage": {**figures, "prompt_tokens_details": {"cached_tokens": 10}}}
        )
    return chunks


def chat_call(index, identity, name, arguments):
    return {
        "tool_calls": [
            {
                "index": index,
                "id": identity,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
        ]
    }


def messages(*blocks, stop="end_turn"):
    """A streamed Messages reply; a block is (start, deltas)."""
    made = [
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "model": "scripted-2",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 20, "output_tokens": 1, "cache_read_input_tokens": 10},
            },
        }
    ]
    for index, (start, deltas) in enumerate(blocks):
        made.append({"type": "content_block_start", "index": index, "content_block": start})
        made += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        made.append({"type": "content_block_stop", "index": index})
    made.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 9},
        }
    )
    made.append({"type": "message_stop"})
    return made


def text_block(text):
    return ({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}])


def tool_block(identity, name, arguments):
    start = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    return (start, [{"type": "input_json_delta", "partial_json": arguments}])


@pytest.fixture
def remote(ws, scripted, monkeypatch):
    """Point an agent `remote` at the scripted server; returns a function of the provider."""

    def point(provider, **fields):
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", "sk-test-key")
        endpoint = scripted.url + ("/v1" if provider == "openai" else "")
        model = {"provider": provider, "id": "m", "endpoint": endpoint}
        fields.setdefault("tools", ["file_read", "grep"])
        ws.write(
            {
                ".halo/agents/remote/agent.yaml": agent(model=model, **fields),
                ".halo/agents/remote/AGENT.md": "You are remote.\n",
            }
        )

    return point


class TestErrorsAsJson:
    """`--format json` prints one object, whatever happens; stderr and exit code are as in every format."""

    def test_a_broken_layer_with_its_place(self, ws, capfd):
        ws.write({".halo/agents/default/agent.yaml": agent(model=LOCAL, tools=["file_raed"])})
        assert run(["run", "-n", "--format", "json", "Hello"]) == 1
        out, err = capfd.readouterr()
        document = json.loads(out)
        error = document["error"]
        assert document["format"] == 1
        assert error["kind"] == "LayerError"
        assert error["file"] == "workspace:.halo/agents/default/agent.yaml"
        assert error["line"] >= 1
        assert "file_raed" in error["message"]
        assert "file_read" in error["hint"]
        assert err.startswith(f"halo: {error['file']}:{error['line']}: {error['message']}")

    def test_a_model_that_refuses(self, ws, remote, scripted, capfd):
        remote("openai")
        scripted.fails(401, {"error": {"message": "no such key"}})
        assert run(["run", "-a", "remote", "-n", "--format", "json", "Hello"]) == 1
        error = json.loads(capfd.readouterr().out)["error"]
        assert error["kind"] == "ProviderError"
        assert "file" not in error
        assert "line" not in error
        assert of(TurnEnded, events(ws))[0].reason == "error"

    @pytest.mark.parametrize(
        ("arguments", "code", "kind"),
        [
            (["-a", "defualt", "Hello"], 2, "UnknownNameError"),
            (["-s", "x", "-n", "Hello"], 2, "UsageError"),
            ([" "], 2, "UsageError"),
            (["-w", "..", "Hello"], 2, "NoWorkspaceError"),
        ],
    )
    def test_mistakes_in_the_command(self, ws, capfd, arguments, code, kind):
        assert run(["run", "--format", "json", *arguments]) == code
        out, err = capfd.readouterr()
        assert json.loads(out)["error"]["kind"] == kind
        assert err.startswith("halo: ")

    def test_names_of_files_that_are_no_text(self, tmp_path, capfd):
        folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
        assert run(["run", "--format", "json", "-w", os.fsdecode(folder), "Hello"]) == 2
        assert "caf" in json.loads(capfd.readouterr().out)["error"]["message"]

    def test_other_formats_print_none(self, ws, capfd):
        for form in ("text", "ndjson"):
            assert run(["run", "--format", form, "-a", "defualt", "Hello"]) == 2
            assert capfd.readouterr().out == ""


def test_the_native_tool_loop_of_chat_completions(ws, remote, scripted, capfd):
    """Parallel calls run, their results go back together, and the answer ends the turn."""
    remote("openai")
    scripted.says_chat(
        *chat(
            chat_call(0, "a", "file_read", '{"path": "notes/a.md"}'),
            chat_call(1, "b", "grep", '{"pattern": "needle"}'),
            finish="tool_calls",
        )
    )
    scripted.says_chat(*chat({"content": "Found "}, {"content": "it."}))
    assert run(["run", "-a", "remote", "Look."]) == 0
    assert capfd.readouterr().out == "Found it.\n"
    second = scripted.requests[1].json["messages"]
    assert [m["role"] for m in second] == ["system", "user", "assistant", "tool", "tool"]
    assert [m["tool_call_id"] for m in second[3:]] == ["a", "b"]
    assert second[4]["content"] == "notes/a.md:1:needle"
    offered = [t["function"]["name"] for t in scripted.requests[0].json["tools"]]
    assert offered == ["file_read", "grep", "session_status"]
    recorded = events(ws)
    assert [r.tool for r in of(ToolResultAdded, recorded)] == ["file_read", "grep"]
    assert [u.usage.read for u in of(UsageReported, recorded)] == [10, 10]
    assert of(UsageReported, recorded)[0].model == "scripted-1"


def test_the_native_tool_loop_of_messages(ws, remote, scripted, capfd):
    remote("anthropic")
    scripted.says_messages(
        *messages(
            text_block("Let me look."), tool_block("t1", "file_read", '{"path": "nope"}'), stop="tool_use"
        )
    )
    scripted.says_messages(*messages(text_block("It is not there.")))
    assert run(["run", "-a", "remote", "Look."]) == 0
    assert capfd.readouterr().out.replace("\n", " ").strip().endswith("It is not there.")
    body = scripted.requests[1].json
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]
    (result,) = body["messages"][2]["content"]
    assert result["tool_use_id"] == "t1"
    assert result["is_error"] is True
    assert body["system"][0]["cache_control"]
    assert of(UsageReported, events(ws))[0].model == "scripted-2"


def test_skills_are_read_from_their_artifacts(ws, remote, scripted, capfd):
    """activate_skill returns the compiled body; the turn pins the artifact that it came from."""
    ws.write({".halo/skills/notes/SKILL.md": skill("At {{workspace_root}}.", name="notes", description="d")})
    remote("openai", skills=["notes"], tools=[])
    scripted.says_chat(
        *chat(chat_call(0, "a", "activate_skill", '{"skill_id": "notes"}'), finish="tool_calls")
    )
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Go."]) == 0
    result = scripted.requests[1].json["messages"][-1]
    assert result["content"] == f"# Skill: notes\n\nAt {ws.root}.\n"
    pinned = of(TurnStarted, events(ws))[0].skills["notes"]
    assert (ws.halo / "artifacts" / pinned / "prompt.md").read_text().startswith("# Skill: notes")


def test_a_turn_that_never_ends_is_ended(ws, remote, scripted, capfd):
    remote("openai", budgets={"turn": {"steps": 3}})
    for number in range(3):
        scripted.says_chat(*chat(chat_call(0, f"c{number}", "grep", '{"pattern": "x"}'), finish="tool_calls"))
    assert run(["run", "-a", "remote", "Go."]) == 1
    assert "ended: steps" in capfd.readouterr().err
    assert of(TurnEnded, events(ws))[0].reason == "steps"


def test_a_turn_without_a_model_call_says_so(ws, remote, scripted, capfd):
    """Its figures would be those of nobody: no model has answered."""
    remote("openai", budgets={"run": {"steps": 1}})
    scripted.says_chat(*chat({"content": "Hello."}))
    assert run(["run", "-a", "remote", "Hi."]) == 0
    capfd.readouterr()
    assert run(["run", "-a", "remote", "And?"]) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.endswith(" · turn 2 · remote · no model call · ended: steps")


def test_thoughts_alone_are_a_failure_and_the_session_goes_on(ws, remote, scripted, capfd):
    remote("openai")
    scripted.says_chat(*chat({"reasoning_content": "Hm."}))
    scripted.says_chat(*chat({"content": "Yes."}))
    assert run(["run", "-a", "remote", "Well?"]) == 1
    err = capfd.readouterr().err
    assert "the model has thought and said nothing" in err
    assert "ended: silent" in err
    assert run(["run", "-a", "remote", "Please."]) == 0
    assert [m["role"] for m in scripted.requests[1].json["messages"]] == ["system", "user"]
    assert scripted.requests[1].json["messages"][1]["content"] == "Well?\n\nPlease."


def test_a_refusal_is_a_failure(ws, remote, scripted, capfd):
    """Exit code 1, and the turn says why it ended; what was said is kept."""
    remote("openai")
    scripted.says_chat(*chat({"content": "I will not."}, finish="content_filter"))
    assert run(["run", "-a", "remote", "Go."]) == 1
    out, err = capfd.readouterr()
    assert out == "I will not.\n"
    assert "ended: refusal" in err
    assert of(TurnEnded, events(ws))[0].reason == "refusal"


def test_calls_with_the_same_id_have_each_their_own_result(ws, remote, scripted):
    """Some servers number the calls of every message from the start."""
    remote("openai")
    for _ in range(2):
        scripted.says_chat(
            *chat(
                chat_call(0, "call_0", "file_read", '{"path": "notes/a.md"}'),
                chat_call(1, "call_0", "grep", '{"pattern": "needle"}'),
                finish="tool_calls",
            )
        )
        scripted.says_chat(*chat({"content": "ok"}))
        assert run(["run", "-a", "remote", "Look."]) == 0
    sent = scripted.requests[-1].json["messages"]
    called = [c["id"] for m in sent for c in m.get("tool_calls", ())]
    assert called == ["call_0", "call_0_2", "call_0_3", "call_0_4"]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == called


def test_a_message_of_several_megabytes(ws, remote, scripted):
    """It comes from stdin, lies beside the log, and is sent whole in this turn and the next."""
    remote("openai", context={"max_tokens": 10_000_000})
    message = "Zeile mit Umläuten äöü\n" * 200_000
    for _ in range(2):
        scripted.says_chat(*chat({"content": "ok"}))
    environ = ws.environ(OPENAI_API_KEY="sk-test-key", HALO_CACHE=os.environ["HALO_CACHE"])
    command = [sys.executable, "-m", "halo", "run", "-a", "remote"]
    for text in (message, "And now?"):
        done = subprocess.run(
            command, input=text.encode(), cwd=ws.root, env=environ, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    for request in scripted.requests:
        assert request.json["messages"][1]["content"] == message
    folder = SessionFolder(str(ws.halo / "sessions"), sessions(ws)[0])
    assert os.path.getsize(folder.events) < 10_000
    assert len(os.listdir(os.path.join(folder.path, "attachments"))) == 1
    assert folder.read().damaged == []


def test_secrets_reach_no_file_and_no_request(ws, remote, scripted, capfd, monkeypatch):
    """A variable used through <<NAME>> is in nothing that Halo writes and in nothing that a model is sent."""
    monkeypatch.setenv("MY_SECRET", SECRET)
    remote("openai", skills=["s"], tools=[])
    ws.write(
        {
            ".halo/settings.yaml": (
                "openai: {secrets: {api_key: <<MY_SECRET>>}}\n"
                "s: {params: {token: <<MY_SECRET>>, also: pre-<<MY_SECRET>>}, secrets: {hidden: <<MY_SECRET>>}}\n"
            ),
            ".halo/skills/s/SKILL.md": skill(
                "{{params.token}} {{params.also}} {{s.secrets.hidden}}", name="s"
            ),
            ".halo/agents/remote/AGENT.md": "{{s.params.token}} {{openai.secrets.api_key}}\n",
        }
    )
    scripted.says_chat(*chat(chat_call(0, "a", "activate_skill", '{"skill_id": "s"}'), finish="tool_calls"))
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["build"]) == 0
    assert run(["run", "-a", "remote", "Go."]) == 0
    output = "".join(capfd.readouterr())
    assert SECRET not in output
    for request in scripted.requests:
        assert SECRET not in request.body.decode()
        assert request.headers["authorization"] == f"Bearer {SECRET}"  # where it belongs
    assert "{{s.params.token}}" in scripted.requests[0].body.decode()
    for folder in (ws.root, ws.home):
        for path, data in everything_below(folder).items():
            assert SECRET.encode() not in data, path


def test_an_environment_slot_needs_trust(ws, remote, scripted, capfd, monkeypatch):
    """`secret: false` lets a variable into a prompt, but only of a workspace that the user trusts."""
    monkeypatch.setenv("REGION", "northern-valley")
    remote("openai", skills=["s"], tools=[])
    ws.write(
        {
            ".halo/settings.yaml": "s: {params: {region: <<REGION>>}}\n",
            ".halo/skills/s/SKILL.md": skill("b", name="s"),
            ".halo/skills/s/config.yaml": "params: [{key: region, secret: false}]\n",
            ".halo/agents/remote/AGENT.md": "Region {{s.params.region}}.\n",
        }
    )
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Go."]) == 0
    assert "halo trust" in capfd.readouterr().err
    assert "Region {{s.params.region}}." in scripted.requests[0].body.decode()
    assert run(["trust", "-y"]) == 0
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Go."]) == 0
    assert "Region northern-valley." in scripted.requests[1].body.decode()
    for data in everything_below(ws.halo).values():
        assert b"northern-valley" not in data


def test_a_frozen_run_refuses_a_stale_artifact(ws, remote, scripted, capfd):
    remote("openai")
    assert run(["run", "-a", "remote", "--frozen", "Go."]) == 1
    assert "was not built yet" in capfd.readouterr().err
    assert run(["build"]) == 0
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "--frozen", "Go."]) == 0
    ws.write({".halo/agents/remote/AGENT.md": "You are changed.\n"})
    assert run(["run", "-a", "remote", "--frozen", "Go."]) == 1
    assert len(scripted.requests) == 1


# mistakes and faults


def test_a_session_with_another_agent_is_not_taken_over(ws, remote, scripted, capfd):
    remote("openai")
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Go."]) == 0
    assert run(["run", "-a", "default", "-s", sessions(ws)[0], "Go."]) == 2
    assert "is with agent 'remote'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "-s", "20260101t000000-aaaaaa", "hi"], "unknown session"),
        (["run", "-s", "nonsense", "hi"], "unknown session"),
        (["run", "-a", "nobody", "hi"], "unknown agent 'nobody'"),
        (["run", "   "], "the message is empty"),
        (["run", "-n", "-s", "x", "hi"], "choose one"),
    ],
)
def test_mistakes_are_answered_before_anything_is_made(ws, capfd, arguments, said):
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert said in err
    assert out == ""
    assert not (ws.halo / "sessions").exists()


def test_an_unknown_model_says_what_may_stand_there(ws, capfd):
    ws.write({".halo/agents/default/agent.yaml": agent(model={**LOCAL, "id": "smolm2"})})
    assert run(["run", "hi"]) == 2
    err = capfd.readouterr().err
    assert "unknown model 'smolm2'" in err
    assert MODEL in err
    assert ".gguf" in err


def test_a_model_file_that_is_cut_short_is_named(ws, capfd, shared_cache):
    source = os.path.join(shared_cache, "models", f"{MODEL}.gguf")
    with open(source, "rb") as file:
        head = file.read(5_000_000)
    (ws.root / "cut.gguf").write_bytes(head)
    ws.write({".halo/agents/default/agent.yaml": agent(model={**LOCAL, "id": "cut.gguf"})})
    assert run(["run", "hi"]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert "cut.gguf" in err
    assert "Traceback" not in err
    assert not (ws.halo / "sessions").exists()


def test_any_gguf_file_works(ws, capfd, shared_cache):
    """One that the workspace names needs trust: native code reads it."""
    os.symlink(os.path.join(shared_cache, "models", f"{MODEL}.gguf"), ws.root / "mine.gguf")
    ws.write({".halo/agents/default/agent.yaml": agent(model={**LOCAL, "id": "mine.gguf"})})
    assert run(["run", QUESTION]) == 3
    assert "halo trust" in capfd.readouterr().err
    assert run(["trust", "-y"]) == 0
    assert "agent default loads the model file mine.gguf" in capfd.readouterr().out
    assert run(["run", QUESTION]) == 0
    assert capfd.readouterr().out == PARIS + "\n"


def test_a_model_that_was_not_pulled_says_how(ws, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("HALO_CACHE", str(tmp_path / "empty"))
    assert run(["run", "hi"]) == 3
    assert f"halo model pull {MODEL}" in capfd.readouterr().err
    assert MODEL in KNOWN_MODELS
    assert not (ws.halo / "sessions").exists()


def test_a_missing_key_says_where_to_put_it(ws, capfd):
    ws.write({".halo/agents/default/agent.yaml": agent(model={"provider": "anthropic", "id": "m"})})
    assert run(["run", "hi"]) == 3
    err = capfd.readouterr().err
    assert "anthropic.secrets.api_key" in err
    assert "ANTHROPIC_API_KEY" in err
    assert not (ws.halo / "sessions").exists()


@pytest.fixture
def impatient(monkeypatch):
    """What fails in a way that passes is tried again at once."""
    at_once = partial(RetryingAdapter, patience=Patience(first=0.001))
    monkeypatch.setattr("halo.sessions.desk.RetryingAdapter", at_once)


def test_a_refused_connection_names_the_endpoint(ws, capfd, impatient):
    model = {"provider": "openai", "id": "m", "endpoint": "http://127.0.0.1:9/v1"}
    ws.write({".halo/agents/default/agent.yaml": agent(model=model)})
    assert run(["run", "hi"]) == 1
    err = capfd.readouterr().err
    assert "http://127.0.0.1:9/v1" in err
    assert "Traceback" not in err
    ended = of(TurnEnded, events(ws))[0]
    assert ended.reason == "error"
    assert "127.0.0.1:9" in ended.error


def test_a_failed_turn_does_not_spoil_the_next(ws, remote, scripted, capfd, impatient):
    """The message of a failed turn stays in the history once; the next turn goes on from there."""
    remote("openai")
    for _ in range(5):
        scripted.fails(500, {"error": {"message": "boom"}})
    assert run(["run", "-a", "remote", "First."]) == 1
    err = capfd.readouterr().err
    assert "boom" in err
    assert err.count("trying again in") == 4
    assert "tried 5 times" in err
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Second."]) == 0
    sent = json.dumps(scripted.requests[-1].json["messages"])
    assert sent.count("First.") == 1
    assert sent.count("Second.") == 1


def test_a_stream_that_breaks_off_keeps_what_was_said(ws, remote, scripted, capfd, impatient):
    """Each attempt voids what the one before it said; the last one's words are kept."""
    remote("openai")
    for _ in range(5):
        scripted.says_chat(*chat({"content": "Half an "})[:1], done=False, cut=True)
    assert run(["run", "-a", "remote", "Go."]) == 1
    assert "Half an" in capfd.readouterr().out
    partial = [d for d in of(MessageAdded, events(ws)) if d.partial]
    assert [d.message.text for d in partial] == ["Half an "]


def test_ctrl_c_ends_the_turn_and_keeps_the_session(ws, remote, scripted):
    """SIGINT in the middle of an answer: exit code 130, what was said is kept, and the session goes on."""
    remote("openai")
    chunk = b"data: " + json.dumps(chat({"content": "Slowly "})[0]).encode() + b"\n\n"
    scripted.says(chunk, 5.0, chunk)
    environ = ws.environ(OPENAI_API_KEY="sk-test-key", HALO_CACHE=os.environ["HALO_CACHE"])
    process = subprocess.Popen(
        [sys.executable, "-m", "halo", "run", "-a", "remote", "Go."],
        cwd=ws.root,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.read(7) == "Slowly "
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    recorded = events(ws)
    assert of(TurnEnded, recorded)[0].reason == "interrupted"
    assert [d.message.text for d in of(MessageAdded, recorded) if d.partial] == ["Slowly "]


HANGING = """
import sys, time
from halo.tools import toolbox
from halo.cli.main import run

def hang(arguments, around):
    print("hanging", flush=True)
    time.sleep(3600)

toolbox.IMPLEMENTED["grep"] = hang
sys.exit(run(sys.argv[1:]))
"""


def test_ctrl_c_does_not_wait_for_a_tool(ws, remote, scripted):
    """The turn ends as interrupted, its call is answered, and the process ends, whatever the tool does."""
    remote("openai")
    scripted.says_chat(*chat(chat_call(0, "a", "grep", '{"pattern": "x"}'), finish="tool_calls"))
    process = subprocess.Popen(
        [sys.executable, "-c", HANGING, "run", "-a", "remote", "Go."],
        cwd=ws.root,
        env=ws.environ(OPENAI_API_KEY="sk-test-key", HALO_CACHE=os.environ["HALO_CACHE"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "hanging\n"
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 130
    assert "Traceback" not in err
    recorded = events(ws)
    assert of(TurnEnded, recorded)[0].reason == "interrupted"
    (result,) = of(ToolResultAdded, recorded)
    assert result.mended
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "Go on."]) == 0
    assert [m["role"] for m in scripted.requests[-1].json["messages"]][:4] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]


def test_a_damaged_session_stands_in_nobodys_way_unless_it_is_named(ws, remote, scripted, capfd):
    remote("openai")
    for _ in range(2):
        scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "First."]) == 0
    good = sessions(ws)[0]
    bad = SessionFolder(str(ws.halo / "sessions"), "29990101t000000-aaaaaa")
    os.makedirs(bad.events)  # a folder, not a log
    assert run(["run", "-a", "remote", "Second."]) == 0
    assert bad.id in capfd.readouterr().err
    assert len(of(TurnStarted, events(ws, good))) == 2
    assert run(["run", "-s", bad.id, "Third."]) == 1
    assert bad.events in capfd.readouterr().err


def test_a_session_of_a_newer_halo_is_left_to_it(ws, remote, scripted, capfd):
    remote("openai")
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "First."]) == 0
    folder = SessionFolder(str(ws.halo / "sessions"), sessions(ws)[0])
    with CheckedLog.open(folder.events) as log:
        log.append(b'{"format":2,"seq":7,"ts":"t","type":"turn.started","turn":2,"data":{}}')
    before = len(list(read_log(folder.events)))
    for arguments in (["-a", "remote"], ["-s", folder.id]):
        assert run(["run", *arguments, "Second."]) == 1
        assert "use the newer Halo" in capfd.readouterr().err
    assert len(list(read_log(folder.events))) == before
    assert len(scripted.requests) == 1


def test_a_turn_whose_derived_files_cannot_be_written_is_no_failure(ws, remote, scripted, capfd):
    remote("openai")
    for _ in range(2):
        scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "First."]) == 0
    (transcript,) = (ws.halo / "sessions").rglob("transcript.md")
    transcript.unlink()
    transcript.mkdir()
    capfd.readouterr()
    assert run(["run", "-a", "remote", "Second."]) == 0
    out, err = capfd.readouterr()
    assert out == "ok\n"
    assert "not up to date" in err


def test_two_runs_in_one_session_do_not_mix(ws, remote, scripted, capfd):
    """The second process is told that the session is in use; nothing of it gets into the log."""
    remote("openai")
    scripted.says_chat(*chat({"content": "ok"}))
    assert run(["run", "-a", "remote", "First."]) == 0
    folder = SessionFolder(str(ws.halo / "sessions"), sessions(ws)[0])
    before = len(events(ws))
    with folder.open(time.time_ns):
        assert run(["run", "-a", "remote", "Second."]) == 1
    assert "in use by process" in capfd.readouterr().err
    assert len(events(ws)) == before
