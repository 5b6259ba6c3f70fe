"""`halo session context`, `compact`, `pin`, `unpin` as processes, with a model on a loopback server."""

import json
import subprocess

import pytest
from making import agent
from turning import ScriptedServer


@pytest.fixture
def server():
    made = ScriptedServer()
    yield made
    made.close()


@pytest.fixture
def halo(make_workspace, server, tmp_path):
    """Run halo in a process of its own, in a workspace whose agent speaks with the server."""
    model = {"provider": "openai", "id": "m", "endpoint": f"{server.url}/v1", "max_tokens": 200}
    made = agent(name="Lead", model=model, tools=["file_read"], context={"max_tokens": 9_000})
    ws = make_workspace(
        {
            ".halo/agents/default/agent.yaml": made,
            ".halo/agents/default/AGENT.md": "You keep the harbour book.\n",
        }
    )
    environ = ws.environ(HALO_CACHE=str(tmp_path / "cache"))

    def run(*words):
        with ws.start(*words, environ=environ) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    run.ws = ws
    return run


def says(server, text):
    usage = {"prompt_tokens": 700, "completion_tokens": 50, "total_tokens": 750}
    server.says_chat(
        {"id": "x", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
        {
            "id": "x",
            "model": "m",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": usage,
        },
    )


def talk(halo, server, *texts):
    for number, text in enumerate(texts):
        says(server, text)
        done = halo("run", *(("-n",) if not number else ()), "--format", "json", f"Message {number}.")
        assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["session"]


def test_context_shows_what_fills_the_window(halo, server):
    session = talk(halo, server, "Hello. " * 100)
    short, whole = halo("session", "context", session), halo("session", "context", session, "--detail")
    assert short.returncode == whole.returncode == 0
    assert "750 of 9,000 tokens are filled (8%; as the provider counted" in short.stdout
    assert "file_read" in whole.stdout
    assert "file_read" not in short.stdout
    values = json.loads(halo("session", "context", session, "--format", "json").stdout)
    assert values["counted"] == 750
    assert {part["kind"] for part in values["parts"]} >= {"segment", "tool", "user", "assistant"}
    assert len(server.requests) == 1  # nothing was sent for it


def test_compact_puts_a_summary_in_the_place_of_the_history(halo, server):
    session = talk(halo, server, "The harbour master is Mira. " * 60, "Yes.")
    says(server, "- the harbour master is Mira")
    says(server, "They spoke of the harbour master.")
    done = halo("session", "compact", session, "keep names")
    assert done.returncode == 0, done.stderr
    assert f"session {session} is compacted: about " in done.stdout
    assert server.requests[-1].json["messages"][-1]["content"].endswith("keep names")
    assert server.requests[-1].json["tool_choice"] == "none"
    (notes,) = (halo.ws.halo / "memory").iterdir()
    assert notes.read_text() == "- the harbour master is Mira\n"
    says(server, "On we go.")
    assert halo("run", "-s", session, "And now?").returncode == 0
    told = [m["content"] for m in server.requests[-1].json["messages"] if m["role"] != "system"]
    assert "They spoke of the harbour master." in told[0]
    assert told[-1] == "And now?"
    assert "Message 0." not in "".join(told)


def test_compact_that_fails_exits_with_1_and_says_why(halo, server):
    session = talk(halo, server, "word " * 400, "Yes.")
    before = (halo.ws.halo / "sessions").rglob("events.jsonl")
    history = next(before).read_text()
    for _ in range(2):
        server.fails(400, {"error": {"message": "no such model", "type": "invalid_request_error"}})
    done = halo("session", "compact", session)
    assert done.returncode == 1
    assert "is as it was: " in done.stderr
    assert "no such model" in done.stderr
    log = next((halo.ws.halo / "sessions").rglob("events.jsonl")).read_text()
    assert log.startswith(history)
    assert '"context.shortened"' not in log
    assert '"compaction.failed"' in log


def test_pin_and_unpin(halo, server):
    session = talk(halo, server, "Hello.")
    done = halo("session", "pin", session)
    assert done.returncode == 0, done.stderr
    halo.ws.write({".halo/agents/default/AGENT.md": "You sell boats.\n"})
    says(server, "Yes.")
    assert halo("run", "-s", session, "And?").returncode == 0
    assert "harbour book" in server.requests[-1].json["messages"][0]["content"]
    done = halo("session", "unpin", session)
    assert "it was pinned to " in done.stdout
    says(server, "Yes.")
    after = halo("run", "-s", session, "And?")
    assert "sell boats" in server.requests[-1].json["messages"][0]["content"]
    assert after.stderr.count("the prompt is not the one of the last turn") == 1
    assert "AGENT.md:1)" in after.stderr


def test_a_session_that_there_is_not_is_named(halo, server):
    for command in ("context", "compact", "pin", "unpin"):
        done = halo("session", command, "20260101t000000-aaaaaa")
        assert done.returncode == 2
        assert "20260101t000000-aaaaaa" in done.stderr


def test_a_session_that_another_process_runs_is_not_changed(halo, server):
    session = talk(halo, server, "Hello.")
    from halo.sessions.folder import SessionFolder

    with SessionFolder(str(halo.ws.halo / "sessions"), session).open(lambda: 1_790_000_000_000_000_000):
        for command in ("compact", "pin", "unpin"):
            done = halo("session", command, session)
            assert done.returncode == 1
            assert "is in use by" in done.stderr
        assert halo("session", "context", session).returncode == 0


def test_a_400_on_content_is_no_failure_of_the_key(halo, server):
    """Complaint 40: one bad payload put every credential into a cool-down."""
    session = talk(halo, server, "Hello.")
    server.fails(400, {"error": {"message": "messages.3: invalid image", "type": "invalid_request_error"}})
    refused = halo("run", "-s", session, "Look.")
    assert refused.returncode == 1
    assert "invalid image" in refused.stderr
    assert "key" not in refused.stderr
    says(server, "Yes.")
    assert halo("run", "-s", session, "And now?").stdout.strip() == "Yes."  # the same key, at once


def test_requests_of_two_processes_have_one_order_and_begin_with_the_same_bytes(halo, server):
    """Complaints 55 and 56: what is replayed is what was sent, whichever process sends it."""
    talk(halo, server, "Hello.", "Yes.")
    one, two = (request.body for request in server.requests)
    assert list(json.loads(one)) == list(json.loads(two))
    end = one.index(b"Message 0.") + len(b"Message 0.")
    assert two[:end] == one[:end]
