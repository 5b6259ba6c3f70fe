"""`halo session …`: what is done to conversations as folders, with real processes."""

import json
import os
import signal
import time

import pytest
from kept import SECOND, Shelf, photograph, read_bytes
from making import agent

from halo.files.log import CheckedLog
from halo.records.events import TurnEnded
from halo.records.origins import Origin
from halo.records.session_events import SessionRolledOver
from halo.sessions.find import session_ids
from halo.sessions.inbox.folder import Inbox
from halo.sessions.reading import payload_of

RED = "\x1b[31mred\x07"


@pytest.fixture
def ws(make_workspace, scripted):
    """A workspace whose agent is answered by the scripted server."""
    model = {"provider": "openai", "id": "m", "endpoint": f"{scripted.url}/v1", "api": "chat"}
    return make_workspace(
        {
            ".halo/agents/default/agent.yaml": agent(name="Lead", model=model),
            ".halo/agents/default/AGENT.md": "You answer.\n",
        }
    )


@pytest.fixture
def shelf(ws):
    made = Shelf(ws.halo / "sessions", ws.home)
    made.clock.ns = time.time_ns() - 1000 * SECOND
    return made


def session(ws, *words, code=0):
    """Run a command; return what it printed, and said beside that."""
    done = ws.cli("session", *words)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def start(ws, *words):
    return ws.start(*words, environ=ws.environ(OPENAI_API_KEY="sk-x"))


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found


def ids(text):
    return [line.split()[0] for line in text.splitlines()]


# list


def test_the_list_of_no_sessions_is_empty(ws):
    out, err = session(ws, "list")
    assert (out, err) == ("", "no sessions\n")


def test_sessions_are_listed_and_filtered(ws, shelf):
    main = shelf.talk(None, "Of tides", agent="default", key="agent:default:main")
    group = shelf.talk(None, RED, agent="b", key="agent:b:slack:group:C1", source=Origin(provider="slack"))
    child = shelf.child(main)
    shelf.put(child)
    out, _ = session(ws, "list")
    lines = out.splitlines()
    assert ids(out) == [child.id, group.id, main.id]
    assert lines[2].split()[1:4] == ["default", "main", "1"]
    assert lines[2].endswith("min  idle  Of tides")
    assert lines[0].endswith("[1 waiting]")
    assert RED not in out  # nothing that a terminal would act upon
    assert "\\x1b[31mred\\x07" in lines[1]
    assert ids(session(ws, "list", "-a", "b", "--kind", "group")[0]) == [group.id]
    assert ids(session(ws, "list", "--key", "main")[0]) == [main.id]
    assert session(ws, "list", "--active", "1")[0] == ""
    tree = session(ws, "list", "--tree")[0].splitlines()
    assert [line[:4] for line in tree] == [group.id[:4], main.id[:4], f"  {child.id[:2]}"]
    out, err = session(ws, "list", "--limit", "1")
    assert (ids(out), err) == ([child.id], "and 2 more; --limit 0 shows all\n")


def test_a_program_gets_the_same_as_json(ws, shelf):
    source = Origin(provider="slack", sender="U07ABC", to="C1")
    folder = shelf.talk(None, RED, agent="default", key="agent:default:slack:group:C1", source=source)
    broken = shelf.talk()
    for name in ("events.jsonl", "session.json"):
        os.unlink(os.path.join(broken.path, name))
    os.mkdir(broken.events)
    out, err = session(ws, "list", "--format", "json")
    document = json.loads(out)
    assert (document["format"], document["count"], document["more"]) == (1, 1, 0)
    (row,) = document["sessions"]
    assert (row["session_id"], row["kind"], row["channel"], row["last_to"]) == (
        folder.id,
        "group",
        "slack",
        "C1",
    )
    assert row["title"] == "\x1b[31mred\x07"
    assert document["unreadable"][0].startswith(broken.id)
    assert "cannot be read" in err
    (line,) = session(ws, "list", "--format", "ndjson")[0].splitlines()
    assert json.loads(line) == row


# show


def test_a_session_is_shown_by_id_or_key(ws, shelf):
    main = shelf.talk(None, "first", "second", agent="default", key="agent:default:main")
    child = shelf.child(main)
    out, _ = session(ws, "show", "agent:default:main", "--turns", "1")
    facts = {line.split()[0]: line for line in out.splitlines()}
    assert facts["session"].split() == ["session", main.id]
    assert "2 model calls, 6 tokens sent" in facts["used"]
    assert facts["…"] == "… 1 earlier turn; --turns 0 shows all"
    assert facts["turn"].endswith("done  3 sent, 2 produced  second")
    assert child.id in out
    document = json.loads(session(ws, "show", main.id, "--format", "json", "--turns", "0")[0])
    assert [turn["message"] for turn in document["turns"]] == ["first", "second"]
    assert document["children"][0]["session_id"] == child.id
    assert document["session"]["key"] == "agent:default:main"


def test_what_is_lost_of_a_session_is_shown(ws, shelf):
    folder = shelf.talk()
    lines = read_bytes(folder.events).splitlines(keepends=True)
    with open(folder.events, "wb") as file:
        file.writelines([*lines[:2], *lines[3:]])
    out, _ = session(ws, "show", folder.id)
    assert "event 3 is missing" in out


# tail


def test_the_end_of_a_session_is_printed(ws, shelf):
    folder = shelf.talk(None, "first", f"second {RED}")
    out, _ = session(ws, "tail", folder.id)
    assert "first" not in out
    assert out.startswith("\n## Turn 2 · ")
    assert "second \\x1b[31mred\\x07\n" in out
    events = [
        json.loads(line)
        for line in session(ws, "tail", "-n", "9", "--format", "ndjson", folder.id)[0].splitlines()
    ]
    assert [event["seq"] for event in events] == list(range(1, 12))


def test_following_goes_on_through_turns_and_into_the_next_session(ws, shelf):
    folder = shelf.talk(None, "first", key="agent:a:main")
    tail = start(ws, "session", "tail", "-f", "--format", "ndjson", "agent:a:main")
    try:
        seen = [json.loads(tail.stdout.readline())["seq"] for _ in range(6)]
        assert seen == [1, 2, 3, 4, 5, 6]
        shelf.talk(folder, "second")
        assert json.loads(tail.stdout.readline())["type"] == "turn.started"
        new = shelf.begin(key="agent:a:main", previous=folder.id)
        with folder.open(shelf.clock) as held:
            held.append(SessionRolledOver(new.id, "/new"), turn=0)
        shelf.talk(new, "third")
        types = [json.loads(tail.stdout.readline())["type"] for _ in range(4 + 1 + 2)]
        assert types[4:] == ["session.rolled_over", "session.created", "turn.started"]
        session(ws, "delete", "-y", new.id)
        _, err = tail.communicate(timeout=20)
        assert err.splitlines() == [
            f"session {folder.id} is followed by {new.id}",
            f"session {new.id} was deleted",
        ]
        assert tail.returncode == 0
    finally:
        tail.kill()
        tail.communicate()


# search


def test_what_was_said_is_found(ws, shelf):
    old = shelf.talk(None, "the tide is low")
    new = shelf.talk(None, "nothing", f"a\nthe {RED} tide is high", agent="b")
    archived = session(ws, "archive", old.id)
    assert "1 session archived" in archived[1]
    out, _ = session(ws, "search", "tide", "--role", "user")
    assert out.splitlines() == [
        f"{new.id} turn 2 user:2: the \\x1b[31mred\\x07 tide is high",
        f"{old.id} turn 1 user:1: the tide is low",
    ]
    out, _ = session(ws, "search", "-i", "--regex", "TIDE.*(low|HIGH)", "-a", "b", "--format", "ndjson")
    assert [(m["turn"], m["role"]) for m in map(json.loads, out.splitlines())] == [
        (2, "user"),
        (2, "assistant"),
    ]
    assert (
        session(ws, "search", "tide", "-s", old.id, "--limit", "1")[1]
        == "there are more than 1; --limit 0 shows all\n"
    )
    assert session(ws, "search", "no such thing", code=1) == ("", "")
    assert "regular expression" in session(ws, "search", "--regex", "(", code=2)[1]


def test_a_search_counts_what_it_could_not_read(ws, shelf):
    """Complaint 36: malformed lines are not passed over in silence."""
    folder = shelf.talk(None, "needle")
    with open(folder.events, "ab") as file:
        file.write(b"needle \xff\n" * 3)
    out, err = session(ws, "search", "needle")
    assert len(out.splitlines()) == 2
    assert err == "warning: 3 lines could not be read; halo session repair tells more\n"


# rename, archive


def test_a_title_is_the_users(ws, shelf):
    folder = shelf.talk(None, "What is up?")
    session(ws, "rename", folder.id, "Of tides")
    assert session(ws, "list")[0].rstrip().endswith("Of tides")
    session(ws, "rename", folder.id, "")
    assert session(ws, "list")[0].rstrip().endswith("What is up?")


def test_nobody_goes_on_in_an_archived_session(ws, shelf, scripted):
    folder = shelf.talk(None, "What is up?", agent="default", key="agent:default:main")
    session(ws, "archive", folder.id)
    assert session(ws, "list")[0] == ""
    assert ids(session(ws, "list", "--archived")[0]) == [folder.id]
    before = photograph(folder.path)
    for words in (("run", "-s", folder.id, "more"), ("send", folder.id, "more")):
        done = ws.cli(*words, OPENAI_API_KEY="sk-x")
        assert done.returncode == 2
        assert f"halo session unarchive {folder.id}" in done.stderr
    shelf.put(folder)  # somebody's who did not look
    assert ws.cli("worker", "--once", "-s", folder.id, OPENAI_API_KEY="sk-x").returncode == 0
    assert scripted.requests == []
    assert Inbox(folder.path).count() == 1
    assert read_bytes(folder.events).count(b"\n") == 7
    assert (
        before.items()
        >= {
            name: digest for name, digest in photograph(folder.path).items() if name == "events.jsonl"
        }.items()
    )
    session(ws, "unarchive", folder.id)
    assert ids(session(ws, "list")[0]) == [folder.id]


# stop


def chat(text):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


@pytest.fixture
def running(ws, scripted):
    """A worker with a session whose turn takes long."""
    assert ws.cli("trust", "-y").returncode == 0
    worker = start(ws, "worker")
    try:
        scripted.says(chat("Half an"), 60.0)
        assert ws.cli("send", "agent:default:main", "First").returncode == 0
        until(lambda: scripted.requests)
        yield Shelf(ws.halo / "sessions", ws.home)
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=20)
    finally:
        worker.kill()
        worker.communicate()


def test_a_turn_is_stopped_whoever_runs_it(ws, running):
    (session_id,) = session_ids(running.sessions)
    folder = running.folder(session_id)
    assert " running" in session(ws, "list")[0]
    for words in (("archive", session_id), ("delete", "-y", session_id), ("rename", session_id, "x")):
        assert "is in use by process" in session(ws, *words, code=1)[1]
    assert ws.cli("send", session_id, "Second", "--interrupt", "no").returncode == 0
    _, err = session(ws, "archive", "--stop", session_id)
    assert err.splitlines() == [
        f"{session_id}: 1 session was stopped; 1 message that waited is kept in the history, unanswered",
        f"{session_id}: 1 session archived",
    ]
    data = [payload_of(event).data for event in folder.read_events()]
    assert [d.reason for d in data if isinstance(d, TurnEnded)] == ["stopped"]
    texts = [message.text for message in folder.read().messages]
    assert texts[0] == "First"
    assert texts[-1] == "Second"
    assert Inbox(folder.path).count() == 0


def test_what_waits_for_a_session_that_nobody_runs_goes_into_its_history(ws, shelf, scripted):
    folder = shelf.talk()
    shelf.put(folder, "unheard")
    _, err = session(ws, "stop", folder.id)
    assert err == (
        f"{folder.id}: nothing was running; 1 message that waited is kept in the history, unanswered\n"
    )
    assert folder.read().messages[-1].text == "unheard"
    assert (Inbox(folder.path).count(), scripted.requests) == (0, [])
    assert session(ws, "stop", folder.id)[1] == f"{folder.id}: nothing was running\n"


# delete


def test_deletion_says_what_goes_asks_and_is_for_good(ws, shelf):
    top = shelf.talk(None, "What is up?")
    child = shelf.child(top)
    before = photograph(shelf.sessions)
    _, err = session(ws, "delete", top.id, code=2)
    assert err.splitlines()[0].startswith(f"{top.id}  a  1 turn  4 files, ")
    assert err.splitlines()[1].startswith(f"  {child.id}  b  1 turn  4 files, ")
    assert "nobody is here to ask" in err
    assert photograph(shelf.sessions) == before
    _, err = session(ws, "delete", "-y", child.id, code=2)
    assert "has not heard its report" in err
    _, err = session(ws, "delete", "-y", top.id)
    assert err.splitlines()[-1].startswith("deleted: 2 sessions (8 files, ")
    assert list(session_ids(shelf.sessions)) == []
    assert "unknown session" in session(ws, "show", top.id, code=2)[1]


# repair


def test_repair_says_what_it_would_do_and_does_it_when_told(ws, shelf):
    folder = shelf.talk()
    shelf.break_off(folder)
    before = photograph(shelf.sessions)
    out, err = session(ws, "repair", code=1)
    assert out.splitlines()[:2] == [
        folder.id,
        "  to do   turn 2 broke off: record that it was interrupted, and its call without a result as well",
    ]
    assert err == "1 session looked at, 4 things to do; halo session repair --apply does it\n"
    assert photograph(shelf.sessions) == before
    out, err = session(ws, "repair", "--apply")
    assert out.count("  done    ") == 4
    assert session(ws, "repair") == ("", "1 session looked at, 0 things to do\n")
    document = json.loads(session(ws, "repair", "--format", "json", folder.id)[0])
    assert document == {"format": 1, "applied": False, "sessions": 1, "found": []}


# What is of a later version


def test_a_session_of_a_later_version_is_shown_and_not_written_to(ws, shelf):
    folder = shelf.talk(None, "needle")
    with CheckedLog.open(folder.events) as log:
        event = {"format": 2, "seq": 7, "ts": "t", "type": "message", "turn": 2, "data": {}}
        log.append(json.dumps(event).encode())
    log = read_bytes(folder.events)
    assert "newer version" in session(ws, "rename", folder.id, "x", code=1)[1]
    assert "newer version" in session(ws, "archive", folder.id, code=1)[1]
    assert "later version" in session(ws, "repair", "--apply", folder.id)[0]
    assert ids(session(ws, "list")[0]) == [folder.id]
    assert "event 7 has format 2" in session(ws, "show", folder.id)[0]
    assert "needle" in session(ws, "tail", "-n", "2", folder.id)[0]
    assert len(session(ws, "search", "needle")[0].splitlines()) == 2
    assert read_bytes(folder.events) == log


@pytest.mark.parametrize("name", ["show", "archive", "repair"])
def test_an_unknown_session_is_the_users_mistake(ws, shelf, name):
    shelf.talk()
    done = ws.cli("session", name, "20200101t000000-aaaaaa")
    assert done.returncode == 2
    assert "unknown session" in done.stderr
