"""Sessions on disks that are full or read-only, by clocks that go back, of great length, written by many at once."""

import errno
import os
import random
import shutil
import subprocess
import sys
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from making import REPOSITORY, agent, examples
from playing import Player, says
from test_engine import OWNER, Busy
from test_talk import SECOND

from halo.errors import BusyError, LogError
from halo.files import ops
from halo.files.log import CheckedLog
from halo.records.events import FORMAT, NAMES, TYPES, Event, MessageAdded, TurnEnded, TurnStarted
from halo.records.incoming import FORMAT as INCOMING
from halo.records.incoming import Incoming
from halo.records.messages import Message, Text, user
from halo.records.targets import AgentTarget
from halo.sessions.choice import Choice
from halo.sessions.derived import read_header
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.keeping.deleting import delete, plan
from halo.sessions.reading import payload_of

NOW = 1_790_000_000_123_456_789


@pytest.fixture
def office(make_workspace):
    return Busy(make_workspace(FILES).without_templates())


FILES = {".halo/agents/a/agent.yaml": agent(tools=["grep"]), ".halo/agents/a/AGENT.md": "You are a.\n"}


def begin(sessions):
    choice = Choice(str(sessions), str(sessions), None, AgentTarget("default"), "cli")
    with choice.open(lambda: NOW) as session:
        return session.folder


def incoming(name, text="Hello"):
    return Incoming(INCOMING, name, "", text, OWNER)


# One event of each type, with the least that each needs; the example of the documentation has more.
LEAST = {
    "artifact.changed": {"before": "a", "after": "b"},
    "answer.taken": {"session": "s", "ids": ["report:s:1"]},
    "child.removed": {"session": "20261201t000000-aaaaaa"},
    "child.started": {"session": "20261201t000000-aaaaaa", "agent": "helper"},
    "compaction.failed": {"problem": "no answer"},
    "context.shortened": {"strategy": "truncate", "edits": [{"start": 0, "end": 0, "messages": []}]},
    "delivery": {"channel": "outbox", "id": "i", "part": 1, "state": "sent"},
    "delivery.due": {
        "message": {
            "format": 1,
            "id": "i",
            "reply": "r",
            "part": 1,
            "kind": "block",
            "address": {"channel": "o"},
        }
    },
    "memory.flushed": {"file": ".halo/memory/2026-12-01.md", "lines": 1},
    "message": {"message": {"role": "user", "content": [{"type": "text", "text": "Hello"}]}},
    "repaired": {"kind": "empty", "call_id": ""},
    "report.sent": {"to": "s", "id": "report:s:1", "status": "completed"},
    "session.changed": {"name": "title", "value": "Tides"},
    "session.rolled_over": {"to": "s", "reason": "daily"},
    "tool.result": {"result": {"type": "tool_result", "call_id": "c", "text": "t"}, "tool": "grep"},
    "turn.ended": {"reason": "done"},
    "turn.started": {"artifact": "a", "fingerprint": "f"},
    "usage": {"provider": "p", "model": "m", "usage": {}},
    "usage.lost": {"provider": "p", "model": "m", "usage": {}},
}


def test_a_log_with_events_of_every_type_is_cut_at_every_byte(tmp_path, monkeypatch):
    """Complaint 34: a half-written last line. What is whole is read, the tear costs itself, and it goes on."""
    monkeypatch.setattr(ops, "fsync", lambda _fd, _path: None)
    folder = begin(tmp_path / "origin")
    assert set(LEAST) | {"session.created"} == set(TYPES)
    with folder.open(lambda: NOW) as session:
        for name, data in LEAST.items():
            session.append(msgspec.convert(data, TYPES[name]), turn=1)
        session.append(MessageAdded(Message("assistant", (Text("Done."),))))
        session.append(TurnEnded("done"))
    with open(folder.events, "rb") as file:
        data = file.read()
    ends = [i for i, byte in enumerate(data) if byte == ord("\n")]
    into = SessionFolder(str(tmp_path / "cut"), folder.id)
    os.makedirs(into.path)
    for cut in range(ends[0], len(data) + 1):
        with open(into.events, "wb") as file:
            file.write(data[:cut])
        whole = sum(end <= cut for end in ends)  # the newline itself may be missing
        assert [e.seq for e in into.read_events() if isinstance(e, Event)] == [*range(1, whole + 1)]
        if cut % 5 and not any(abs(end - cut) < 3 for end in ends):
            continue  # going on takes longer than reading
        with into.open(lambda: NOW) as session:
            assert session.conversation.seq >= whole
            assert not session.conversation.open_turn
            session.append(MessageAdded(user("again")))
            last = session.conversation.seq
        assert [event.seq for event in into.read_events() if isinstance(event, Event)] == [
            *range(1, last + 1)
        ]


WRITER = """
import json, random, sys, time
from halo.errors import BusyError
from halo.records.events import MessageAdded
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.messages import user
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
sessions, who = sys.argv[1:]
folders = [SessionFolder(sessions, name) for name in session_ids(sessions)]
random.Random(who).shuffle(folders)
for number, folder in enumerate(folders):
    name = f"{who}.{number}"
    Inbox(folder.path).put(Incoming(FORMAT, name, "", name, Sender("user")), time.time_ns())
    while True:
        try:
            with folder.open(time.time_ns) as session:
                session.append(MessageAdded(user(name)))
            break
        except BusyError:
            pass
"""


def test_eight_processes_write_fifty_sessions_at_once(tmp_path):
    """Complaint 19: no line of a log and no message of an inbox is lost, and none is there twice."""
    sessions = tmp_path / "sessions"
    for _ in range(50):
        begin(sessions)
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(sessions), str(who)], env=environ)
        for who in range(8)
    ]
    assert [writer.wait(120) for writer in writers] == [0] * 8
    said, put = [], []
    for name in session_ids(str(sessions)):
        folder = SessionFolder(str(sessions), name)
        events = list(folder.read_events())
        assert [event.seq for event in events] == list(range(1, 10))
        said += [payload_of(event).data.message.text for event in events[1:]]
        put += [waiting.message.id for waiting in Inbox(folder.path).waiting()[0]]
    everything = sorted(f"{who}.{number}" for who in range(8) for number in range(50))
    assert sorted(said) == everything
    assert sorted(put) == everything


# Full and read-only disks.


def refusing(monkeypatch, after, number=errno.ENOSPC):
    """Let the disk take nothing any more after so many operations. Returns the ones that are left, in a list."""
    left = [after]

    def wrapped(real):
        def call(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(number, os.strerror(number))
            return real(*arguments, **options)

        return call

    for name in (
        "create",
        "write",
        "mkdir",
        "link",
        "fsync",
        *(("rename",) if number == errno.EROFS else ()),
    ):
        monkeypatch.setattr(ops, name, wrapped(getattr(ops, name)))
    return left


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_fills_at_any_operation_of_a_turn_loses_nothing(office, monkeypatch, number):
    office.run(Player(says("Hello.")))
    after = 0
    while True:
        name = f"message {after}"
        office.put(name)
        acknowledged = [event.seq for event in office.folder.read_events()]
        with monkeypatch.context() as patch:
            left = refusing(patch, after, number)
            office.shown.clear()
            office.wake(Player(says(f"Answer {after}.")))
        seqs = [event.seq for event in office.folder.read_events()]
        assert seqs[: len(acknowledged)] == acknowledged
        assert seqs == list(range(1, len(seqs) + 1))
        if left[0] >= 0:
            break
        waits = [waiting.message.id for waiting in Inbox(office.folder.path).waiting()[0]]
        assert name in office.said() or name in waits
        office.wake(Player(says("Now."), says("Now.")))  # there is room again
        assert Inbox(office.folder.path).count() == 0
        assert office.said().count(name) == 1
        after += 1
    assert after > 10
    assert not office.folder.read().open_turn


def test_what_was_not_put_is_not_said_to_be(office, monkeypatch):
    """At any operation: either the message is there, or whoever put it knows that it is not."""
    office.run(Player(says("Hello.")))
    inbox = Inbox(office.folder.path)
    for after in range(20):
        with monkeypatch.context() as patch:
            left = refusing(patch, after)
            try:
                put = inbox.put(incoming(str(after)), NOW)
            except OSError:
                put = False
        there = str(after) in [waiting.message.id for waiting in inbox.waiting()[0]]
        assert there or not put
        assert not os.path.exists(inbox.path) or not [n for n in os.listdir(inbox.path) if n.endswith(".tmp")]
        if left[0] >= 0:
            return
    pytest.fail("a message takes fewer operations")


def namespaces():
    return shutil.which("unshare") and not subprocess.run(["unshare", "-rm", "true"], check=False).returncode


# In a namespace of its own: a small file system in the place of the sessions' folder.
FULL = """
import os, subprocess, sys
root = sys.argv[1]
kept = os.path.join(root, ".halo", "sessions")
os.makedirs(kept, exist_ok=True)
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", kept], capture_output=True, text=True)
if mounted.returncode:
    print("nothing can be mounted:", mounted.stderr, file=sys.stderr)
    sys.exit(77)

def run(*words):
    return subprocess.run([sys.executable, "-m", "halo", *words], cwd=root, capture_output=True, text=True)

filler = os.path.join(kept, "filler")
sent = run("send", "agent:a:main", "One", "--id", "1")
assert sent.returncode == 0, sent
with open(filler, "ab", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
refused = run("send", "agent:a:main", "Two", "--id", "2")
assert refused.returncode == 1, refused
assert "No space left on device" in refused.stderr and "make room on the disk" in refused.stderr, refused
assert "Traceback" not in refused.stderr, refused
listed = run("session", "list")
assert listed.returncode == 0, listed
os.unlink(filler)
sent = run("send", "agent:a:main", "Two", "--id", "2", "--format", "json")
assert sent.returncode == 0 and '"accepted"' in sent.stdout, sent
again = run("send", "agent:a:main", "One", "--id", "1", "--format", "json")
assert '"delivered before"' in again.stdout, again
subprocess.run(["mount", "-o", "remount,ro", kept], check=True)
for words in (["send", "agent:a:main", "Three"], ["session", "rename", "agent:a:main", "Tides"]):
    refused = run(*words)
    assert refused.returncode == 1, refused
    assert "Read-only file system" in refused.stderr and "mount it for writing" in refused.stderr, refused
    assert "Traceback" not in refused.stderr, refused
for words in (["session", "list"], ["session", "show", "agent:a:main"]):
    shown = run(*words)
    assert shown.returncode == 0, shown
"""


def test_real_disks_that_are_full_or_read_only_say_what_to_do(make_workspace):
    if not namespaces():
        pytest.skip("no user namespaces here, in which a file system could be mounted")
    ws = make_workspace(FILES)
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", FULL, str(ws.root)],
        env=ws.environ(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


# Clocks.


def test_a_clock_that_goes_back_between_and_within_turns_changes_no_order(office):
    dice = random.Random(7)
    office.desk.now_ns = lambda: NOW + dice.randrange(-(10**6), 10**6) * SECOND
    for number in range(6):
        office.run(Player(says(f"Answer {number}.")), f"Question {number}")
        office.put(f"More {number}")
        office.put(f"And more {number}")
        office.wake(Player(says("Yes.")))
    events = list(office.folder.read_events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert sorted(event.ts for event in events) != [event.ts for event in events]
    assert [event.turn for event in events[1:]] == sorted(event.turn for event in events[1:])
    said = [
        text
        for n in range(6)
        for text in (f"Question {n}", f"Answer {n}.", f"More {n}\n\nAnd more {n}", "Yes.")
    ]
    assert office.said() == said
    conversation = office.folder.read()
    assert conversation.damaged == []
    assert conversation.seconds >= 0
    assert len(list(session_ids(office.sessions))) == 1


@given(st.lists(st.integers(0, 4 * 10**18), min_size=1, max_size=12))
@settings(max_examples=examples(20))
def test_messages_keep_the_order_in_which_they_were_put_by_any_clock(tmp_path_factory, times):
    folder = tmp_path_factory.mktemp("clock")
    inbox = Inbox(str(folder))
    for number, at in enumerate(times):
        assert inbox.put(incoming(str(number)), at)
    assert [waiting.message.id for waiting in inbox.waiting()[0]] == [str(n) for n in range(len(times))]


# Length.


def test_a_session_of_ten_thousand_messages_is_opened_and_goes_on(office):
    office.run(Player(says("Hello.")))
    folder = office.folder
    with CheckedLog.open(folder.events) as log:
        seq = folder.read().seq
        for number in range(5_000):
            for data in (
                TurnStarted("a", "f"),
                MessageAdded(user(f"Question {number}")),
                MessageAdded(Message("assistant", (Text(f"Answer {number}."),))),
                TurnEnded("done"),
            ):
                seq += 1
                raw = msgspec.Raw(msgspec.json.encode(data))
                event = Event(FORMAT, seq, timestamp(NOW), NAMES[type(data)], number + 2, raw)
                log.append(msgspec.json.encode(event), sync=False)
    began = time.process_time()
    player = Player(says("Still here."))
    office.run(player, "Are you there?")
    seconds = time.process_time() - began
    assert seconds < 20
    assert len(player.requests[0].history) == 10_003
    conversation = folder.read()
    assert (conversation.turn, len(conversation.messages)) == (5_002, 10_004)
    assert read_header(folder).turns == 5_002
    began = time.process_time()
    office.run(Player(says("Yes.")), "And now?")
    assert time.process_time() - began < 10


# Sessions that go while somebody writes to them.


@pytest.mark.parametrize("when", ["fsync_dir", "create", "link"])
def test_nothing_is_put_for_a_session_that_is_gone(tmp_path, monkeypatch, when):
    """It may go at any moment; its folder does not come back."""
    folder = begin(tmp_path / "sessions")
    real = getattr(ops, when)

    def gone(*arguments):
        shutil.rmtree(folder.path)
        return real(*arguments)

    monkeypatch.setattr(ops, when, gone)
    with pytest.raises(LogError, match="there is no session here any more"):
        Inbox(folder.path).put(incoming("1"), NOW)
    assert not os.path.exists(folder.path)


def test_a_message_that_came_while_a_session_was_deleted_keeps_it(tmp_path, monkeypatch):
    """It comes behind the last look: whoever put it was told that it is there."""
    sessions = str(tmp_path / "sessions")
    folder = begin(sessions)
    planned = plan(sessions, folder)
    rename = ops.rename_folder

    def late(path, target):
        if path == folder.path:
            Inbox(path).put(incoming("late"), NOW)
        rename(path, target)

    monkeypatch.setattr(ops, "rename_folder", late)
    with pytest.raises(BusyError, match="a message has just come"):
        delete(sessions, planned, force=False)
    assert [waiting.message.id for waiting in Inbox(folder.path).waiting()[0]] == ["late"]
    assert folder.read().seq == 1
