"""`halo send`, `halo worker`, `halo run --detach`: messages between processes, with a scripted provider."""

import json
import os
import signal
import time

import msgspec
import pytest
from making import agent

from halo.records.events import TYPES, MessageAdded, TurnEnded
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox


def chat(text):
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def line(event):
    return b"data: " + json.dumps(event).encode() + b"\n\n"


@pytest.fixture
def ws(make_workspace, scripted):
    """A workspace whose agent is answered by the scripted server."""
    model = {"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1", "api": "chat"}
    made = make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=model),
            ".halo/agents/default/AGENT.md": "You answer.\n",
        }
    )
    assert made.cli("trust", "-y").returncode == 0
    return made


def halo(ws, *words, **options):
    """Start `halo` as a process of its own."""
    return ws.start(*words, environ=ws.environ(OPENAI_API_KEY="sk-x"), **options)


def done(process, seconds=30):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def folders(ws):
    sessions = str(ws.halo / "sessions")
    return [SessionFolder(sessions, name) for name in session_ids(sessions)]


def data(folder, kind):
    decoded = [msgspec.json.decode(e.data, type=TYPES[e.type]) for e in folder.read_events()]
    return [d for d in decoded if isinstance(d, kind)]


def texts(folder):
    return [d.message.text for d in data(folder, MessageAdded)]


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)
    return found


def test_a_message_waits_for_whoever_runs_the_session(ws, scripted):
    code, _, err = done(halo(ws, "send", "agent:default:main", "Hello"))
    assert (code, "begun for it: accepted" in err) == (0, True), err
    (folder,) = folders(ws)
    assert Inbox(folder.path).count() == 1
    scripted.says_chat(chat("Good day."), END)
    code, out, err = done(halo(ws, "worker", "--once"))
    assert code == 0, err
    assert out == f"{folder.id}   default   turn 1   done\n"
    assert texts(folder) == ["Hello", "Good day."]


def test_a_worker_takes_what_comes_and_ends_when_it_is_told(ws, scripted):
    worker = halo(ws, "worker")
    try:
        until((ws.halo / "sessions" / "waiting").exists)
        for n in range(2):
            scripted.says_chat(chat(f"Answer {n}."), END)
            sent = halo(ws, "send", "agent:default:main", f"Question {n}", "--wait", "20", "--format", "json")
            code, out, err = done(sent)
            assert code == 0, err
            reply = json.loads(out)
            assert (reply["delivery"], reply["reply_state"], reply["reply"]) == (
                "accepted",
                "done",
                f"Answer {n}.",
            )
        worker.send_signal(signal.SIGTERM)
        code, out, _ = done(worker)
    finally:
        worker.kill()
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == ["done", "done"]
    assert len(folders(ws)) == 1


@pytest.mark.parametrize(
    "option", [["--channel", "outbox", "--peer", b"\xff"], ["--id", b"\xff"], ["--channel", b"\xff"]]
)
def test_an_id_that_is_no_text_begins_nothing(ws, option):
    done = ws.cli("send", "default", "hi", *option)
    assert done.returncode == 2
    assert done.stderr == f"halo: {option[-2]} is not UTF-8\n"
    assert list(session_ids(str(ws.halo / "sessions"))) == []


def test_the_same_id_is_taken_once(ws, scripted):
    for _ in range(2):
        code, _, err = done(halo(ws, "send", "agent:default:main", "Once", "--id", "k"))
        assert code == 0
    assert "delivered before" in err
    scripted.says_chat(chat("Yes."), END)
    assert done(halo(ws, "worker", "--once"))[0] == 0
    _, _, err = done(halo(ws, "send", "agent:default:main", "Once", "--id", "k"))
    assert "delivered before" in err
    assert done(halo(ws, "worker", "--once"))[0] == 0
    assert texts(folders(ws)[0]) == ["Once", "Yes."]


def test_two_workers_share_the_work(ws, scripted):
    for n in range(6):
        done(halo(ws, "send", f"agent:default:hook:{n}", f"Question {n}"))
        scripted.says_chat(chat("Yes."), END)
    workers = [halo(ws, "worker", "--once") for _ in range(2)]
    ended = [done(worker, 60) for worker in workers]
    assert [code for code, _, _ in ended] == [0, 0], ended
    assert len(scripted.requests) == 6
    assert sorted(t for f in folders(ws) for t in texts(f)) == sorted(
        [*(f"Question {n}" for n in range(6)), *["Yes."] * 6]
    )


def test_a_worker_that_is_told_to_stop_lets_the_turn_end_and_leaves_the_rest(ws, scripted):
    worker = halo(ws, "worker")
    try:
        scripted.says(line(chat("Slowly")), 1.0, line(END), b"data: [DONE]\n\n")
        done(halo(ws, "send", "agent:default:main", "First"))
        (folder,) = folders(ws)
        until(lambda: scripted.requests)
        done(halo(ws, "send", "agent:default:main", "Second", "--interrupt", "no"))
        worker.send_signal(signal.SIGTERM)
        code, _, err = done(worker)
    finally:
        worker.kill()
    assert code == 0, err
    assert [d.reason for d in data(folder, TurnEnded)] == ["done"]
    assert Inbox(folder.path).count() == 1
    scripted.says_chat(chat("Now."), END)
    assert done(halo(ws, "worker", "--once"))[0] == 0
    assert texts(folder) == ["First", "Slowly", "Second", "Now."]


def test_a_killed_worker_loses_nothing_and_the_next_one_goes_on(ws, scripted):
    """Complaint 28: kill -9, and the next run recovers without anybody's help."""
    worker = halo(ws, "worker")
    scripted.says(line(chat("Half an")), 5.0)
    done(halo(ws, "send", "agent:default:main", "First"))
    (folder,) = folders(ws)
    until(lambda: scripted.requests)
    done(halo(ws, "send", "agent:default:main", "Second", "--interrupt", "no"))
    worker.kill()
    done(worker)
    scripted.says_chat(chat("Here."), END)
    code, _, err = done(halo(ws, "worker", "--once"))
    assert code == 0, err
    assert texts(folder) == ["First", "Second", "Here."]
    assert [d.reason for d in data(folder, TurnEnded)] == ["interrupted", "done"]


def test_sessions_that_came_with_the_folder_are_left_alone(ws, scripted):
    done(halo(ws, "send", "agent:default:main", "Hello"))
    for key in ws.home.rglob("machine.key"):
        key.write_bytes(b"x" * 32)  # as if it had been begun elsewhere
    code, _, err = done(halo(ws, "worker", "--once"))
    assert code == 0
    assert "was begun elsewhere" in err
    assert scripted.requests == []


def test_a_command_that_comes_by_a_channel_is_answered_there(ws, scripted):
    words = ("send", "--channel", "outbox", "--peer", "u1", "default")
    code, _, err = done(halo(ws, *words, "Hello"))
    assert code == 0, err
    code, out, err = done(halo(ws, *words, "--owner", "/status"))
    assert code == 0, err
    (sent,) = [json.loads(path.read_text()) for path in (ws.halo / "outbox").rglob("*.json")]
    assert sent["text"] == out.rstrip("\n")
    code, out, _ = done(halo(ws, *words, "/stop", "--format", "json"))
    assert (code, "is for those who may change" in json.loads(out)["answer"]) == (0, True)
    assert Inbox(folders(ws)[0].path).count() == 1
    assert scripted.requests == []


@pytest.mark.parametrize(
    "where",
    [
        ("--peer", "u1"),
        ("--group", "g1", "--peer", "u1"),
        ("--type", "channel", "--group", "C07", "--thread", "9", "--peer", "u1", "--account", "work"),
        ("--event", "cron"),
    ],
)
def test_send_reaches_the_session_that_route_names(ws, where):
    came = ("--channel", "outbox", *where)
    named = json.loads(ws.cli("session", "route", *came, "--format", "json").stdout)
    sent = ws.cli("send", "default", "Hello", *came, "--format", "json")
    assert sent.returncode == 0, sent.stderr
    (folder,) = folders(ws)
    assert json.loads(sent.stdout)["session"] == folder.id
    assert folder.read().created.key == named["key"]
    alone = ws.cli("send", "agent:default:main", "Hello", *where)
    assert alone.returncode == 2
    assert "--channel names the channel" in alone.stderr


def test_a_session_is_named_by_its_key_wherever_one_is_named(ws, scripted):
    done(halo(ws, "send", "agent:default:main", "One"))
    (folder,) = folders(ws)
    scripted.says_chat(chat("First."), END)
    code, out, err = done(halo(ws, "worker", "--once", "-s", "agent:default:main"))
    assert (code, out) == (0, f"{folder.id}   default   turn 1   done\n"), err
    scripted.says_chat(chat("Second."), END)
    assert done(halo(ws, "run", "-s", "agent:default:main", "Two"))[1] == "Second.\n"
    assert ws.cli("session", "archive", "agent:default:main").returncode == 0
    code, _, err = done(halo(ws, "run", "-s", "agent:default:main", "Three"))
    assert (code, "is archived" in err) == (2, True)
    for words in (("run", "-s", "agent:default:none", "x"), ("worker", "--once", "-s", "agent:default:none")):
        code, _, err = done(halo(ws, *words))
        assert (code, "no session has the key" in err) == (2, True)


def test_a_channel_by_which_no_reply_can_go_out_is_told_of_at_once(ws):
    sent = ws.cli("send", "default", "Hello", "--channel", "pigeon", "--peer", "u1")
    assert sent.returncode == 0
    assert "no installed channel is of the type 'pigeon', so replies on pigeon cannot go out" in sent.stderr
    assert "go out" not in ws.cli("send", "default", "Hello", "--channel", "outbox", "--peer", "u1").stderr


def test_what_goes_wrong_is_told_in_whole_lines(ws, scripted):
    done(halo(ws, "send", "default", "Hello", "--channel", "pigeon", "--peer", "u1"))
    scripted.says_chat(chat("Coo."), END)
    _, _, err = done(halo(ws, "worker", "--once"))
    assert (
        "not delivered to pigeon: failed unknown channel 'pigeon' (known: outbox, terminal, webhook)\n" in err
    )
    done(halo(ws, "send", "agent:default:main", "Again"))
    scripted.fails(401, {"error": {"message": "no such key"}})
    _, _, err = done(halo(ws, "worker", "--once"))
    assert "\\n" not in err


def test_a_detached_turn_goes_on_by_itself(ws, scripted):
    scripted.says_chat(chat("Done apart."), END)
    code, out, err = done(halo(ws, "run", "--detach", "Do it."))
    assert code == 0, err
    folder = SessionFolder(str(ws.halo / "sessions"), out.strip())
    until(lambda: texts(folder) == ["Do it.", "Done apart."] and data(folder, TurnEnded))
    scripted.says_chat(chat("And on."), END)
    code, out, _ = done(halo(ws, "run", "Go on."))
    assert out == "And on.\n"
    assert texts(folder)[2:] == ["Go on.", "And on."]


def test_a_detached_turn_beside_a_worker_is_run_once(ws, scripted):
    worker = halo(ws, "worker")
    try:
        until((ws.halo / "sessions" / "waiting").exists)
        scripted.says_chat(chat("Done apart."), END)
        code, out, err = done(halo(ws, "run", "--detach", "Do it."))
        assert code == 0, err
        folder = SessionFolder(str(ws.halo / "sessions"), out.strip())
        until(lambda: data(folder, TurnEnded))
        worker.send_signal(signal.SIGTERM)
        done(worker)
    finally:
        worker.kill()
    assert texts(folder) == ["Do it.", "Done apart."]
    assert len(scripted.requests) == 1


def test_nothing_is_detached_into_a_session_that_came_with_the_folder(ws):
    done(halo(ws, "send", "agent:default:main", "Hello"))
    (folder,) = folders(ws)
    for key in ws.home.rglob("machine.key"):
        key.write_bytes(b"x" * 32)  # as if it had been begun elsewhere
    code, _, err = done(halo(ws, "run", "--detach", "-s", folder.id, "Do it."))
    assert code == 2
    assert "was begun elsewhere" in err
    assert Inbox(folder.path).count() == 1


def test_the_log_of_a_detached_turn_is_no_way_out(ws, tmp_path):
    done(halo(ws, "send", "agent:default:main", "Hello"))
    (folder,) = folders(ws)
    (tmp_path / "precious").write_text("as it was")
    os.symlink(tmp_path / "precious", os.path.join(folder.path, "worker.log"))
    code, _, err = done(halo(ws, "run", "--detach", "-s", folder.id, "Do it."))
    assert code != 0
    assert "worker.log" in err
    assert (tmp_path / "precious").read_text() == "as it was"
    assert Inbox(folder.path).count() == 1


def test_what_detaching_cannot_take_along_is_refused(ws):
    code, _, err = done(halo(ws, "run", "--detach", "--frozen", "Do it."))
    assert code == 2
    assert "--frozen" in err
    assert folders(ws) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("send", "20200101t000000-aaaaaa", "x"), "unknown session"),
        (("send", "agent:nobody:main", "x"), "unknown agent"),
        (("send", "agent:default:direct:", "x"), "session key"),
        (("send", "agent:default:main", " "), "the message is empty"),
        (("worker", "-s", "x"), "--once"),
    ],
)
def test_mistakes_are_said(ws, words, problem):
    code, _, err = done(halo(ws, *words))
    assert code == 2
    assert problem in err
