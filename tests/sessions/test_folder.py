"""A session's folder survives what happens to it."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from halo.errors import BusyError, LogError, UnknownNameError, UsageError
from halo.files import ops
from halo.files.log import read_log
from halo.records.events import Event, MessageAdded, ToolResultAdded, TurnEnded, TurnStarted
from halo.records.headers import Header
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.session_events import SessionTarget
from halo.records.targets import AgentTarget
from halo.sessions.choice import Choice, choose
from halo.sessions.derived import read_header, write_derived
from halo.sessions.find import find_session, newest, session_ids
from halo.sessions.folder import INTERRUPTED, SessionFolder
from halo.sessions.ids import month_of, new_session_id, timestamp

NOW = 1_790_000_000_123_456_789


def now():
    return NOW


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def begin(sessions, agent="default", at=NOW, origin="cli", **target):
    """A session with one finished turn."""
    with Choice(str(sessions), str(sessions), None, AgentTarget(agent, **target), origin).open(
        lambda: at
    ) as session:
        session.append(TurnStarted("artifact", "print"), turn=1)
        session.append(MessageAdded(user("What is up?")))
        session.append(MessageAdded(Message("assistant", (Text("Nothing."),))))
        session.append(TurnEnded("done"))
        write_derived(session)
        return session.folder


def test_ids_sort_by_time_and_lie_in_their_month():
    early, late = new_session_id(NOW, b"zzzzzz"), new_session_id(NOW + 10**9, b"\0\0\0\0\0\0")
    assert early < late
    assert early == early.lower()
    assert month_of(early) == timestamp(NOW)[:7]


def test_events_are_numbered_and_carry_their_turn(tmp_path):
    folder = begin(tmp_path)
    events = [msgspec.json.decode(line.record, type=Event) for line in read_log(folder.events)]
    assert [e.seq for e in events] == [1, 2, 3, 4, 5]
    assert [e.turn for e in events] == [0, 1, 1, 1, 1]
    assert [e.type for e in events] == ["session.created", "turn.started", "message", "message", "turn.ended"]
    assert events[0].ts == timestamp(NOW)


def test_a_session_is_held_by_one_process(tmp_path):
    folder = begin(tmp_path)
    with folder.open(now), pytest.raises(BusyError, match=folder.id):
        folder.open(now)
    folder.open(now).close()


def test_a_torn_log_keeps_every_event_before_the_tear(tmp_path):
    """Cut events.jsonl at every byte: what was written whole is there, and the session goes on."""
    folder = begin(tmp_path / "origin")
    data = read_bytes(folder.events)
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(ends[0], len(data)):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        torn = SessionFolder(str(tmp_path / "cut"), folder.id)
        os.makedirs(torn.path)
        with open(torn.events, "wb") as file:
            file.write(data[:cut])
        whole = sum(1 for end in ends if end - 1 <= cut)  # the newline itself may be missing
        with torn.open(now) as session:
            mended = session.conversation
            session.append(TurnStarted("a", "f"), turn=mended.turn + 1)
            session.append(MessageAdded(user("again")))
        after = torn.read()
        assert after.history()[-1] == user("again")
        seqs = [msgspec.json.decode(li.record, type=Event).seq for li in read_log(torn.events) if li.record]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= whole + 2


def test_a_dead_turn_is_mended_once_and_for_good(tmp_path):
    """A call that was running when the process died is reported as interrupted, never run again silently."""
    folder = begin(tmp_path)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(MessageAdded(user("look")))
        session.append(MessageAdded(Message("assistant", (ToolCall("c1", "grep", "{}"),))))
    with folder.open(now) as session:
        first = session.conversation.history()
        assert session.conversation.ended == TurnEnded("interrupted", mended=True)
    with folder.open(now) as session:
        assert session.conversation.history() == first
    assert first[-1].content == (ToolResult("c1", INTERRUPTED, is_error=True),)
    mended = [li for li in read_log(folder.events) if li.record and b'"mended":true' in li.record]
    assert len(mended) == 2  # the result, and the end of the turn


def test_an_unreadable_log_is_never_written_to(tmp_path):
    folder = begin(tmp_path)
    with open(folder.events, "wb") as file:
        file.write(b"this is\nanother program's file\n")
    with pytest.raises(LogError):
        folder.open(now)
    assert read_bytes(folder.events) == b"this is\nanother program's file\n"


def test_derived_files_are_rebuilt_when_missing_or_wrong(tmp_path):
    folder = begin(tmp_path)
    header = read_header(folder)
    assert header.title == "What is up?"
    assert header.turns == 1
    stored = read_bytes(os.path.join(folder.path, "session.json"))
    for damage in (b"", b"{}", b"nonsense", stored.replace(b'"format": 1', b'"format": 2')):
        with open(os.path.join(folder.path, "session.json"), "wb") as file:
            file.write(damage)
        assert (
            msgspec.structs.replace(read_header(folder), transcript_bytes=header.transcript_bytes) == header
        )
    os.unlink(os.path.join(folder.path, "session.json"))
    with folder.open(now) as session:
        write_derived(session)
    with open(os.path.join(folder.path, "session.json"), "rb") as file:
        assert msgspec.json.decode(file.read(), type=Header) == header


def test_a_header_that_is_older_than_the_log_is_derived_anew(tmp_path):
    """A process that was killed, or had no room, leaves the header of an earlier turn."""
    folder = begin(tmp_path)
    old = read_header(folder)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        assert read_header(folder).turns == 2  # also while the turn runs
        session.append(TurnEnded("done"))
    assert read_header(folder).seq == old.seq + 2
    os.unlink(folder.events)
    assert read_header(folder) is None


def test_a_header_that_fits_costs_no_reading_of_the_log(tmp_path, monkeypatch):
    folder = begin(tmp_path)
    monkeypatch.setattr(SessionFolder, "read", None)
    assert read_header(folder).turns == 1


def test_the_transcript_grows_by_turns_as_if_written_at_once(tmp_path):
    folder = begin(tmp_path)
    transcript = os.path.join(folder.path, "transcript.md")
    for turn in (2, 3):
        with folder.open(now) as session:
            session.append(TurnStarted("artifact", "print"), turn=turn)
            session.append(MessageAdded(user(f"turn {turn} ```")))
            session.append(MessageAdded(Message("assistant", (ToolCall("c", "grep", '{"pattern": "x"}'),))))
            session.append(ToolResultAdded(ToolResult("c", "a ``` fence", is_error=True), "grep"))
            session.append(TurnEnded("steps"))
            write_derived(session)
    grown = read_bytes(transcript).decode()
    os.unlink(transcript)
    with folder.open(now) as session:
        write_derived(session)
    assert read_bytes(transcript).decode() == grown
    assert "````\na ``` fence\n````" in grown


def test_a_process_reads_the_log_of_a_session_once_however_many_turns_it_runs(tmp_path, monkeypatch):
    folder, reads = begin(tmp_path), []
    monkeypatch.setattr("halo.sessions.folder.read_log", lambda path: reads.append(path) or read_log(path))
    folder = choose(str(tmp_path), None, "cli", home=str(tmp_path), named=folder.id, new=False).folder
    for turn in (2, 3, 4):
        with folder.open(now) as session:
            session.append(TurnStarted("artifact", "print"), turn=turn)
            session.append(MessageAdded(user(f"turn {turn}")))
            session.append(TurnEnded("done"))
            write_derived(session)
    assert len(reads) == 1
    assert session.conversation.history() == SessionFolder(str(tmp_path), folder.id).read().history()


def test_what_another_process_has_written_meanwhile_is_read(tmp_path):
    folder = begin(tmp_path)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(TurnEnded("done"))
    with SessionFolder(str(tmp_path), folder.id).open(now) as other:
        other.append(MessageAdded(user("from elsewhere")), turn=2)
    with folder.open(now) as session:
        assert session.conversation.history()[-1] == user("from elsewhere")
        assert session.conversation.seq == other.conversation.seq


@pytest.mark.parametrize("left", ["nothing", "half", "whole", "other"])
def test_a_transcript_is_never_wrong_for_long(tmp_path, monkeypatch, left):
    """The transcript was written and session.json was not: the next turn repeats nothing and misses nothing."""
    folder = begin(tmp_path)
    transcript = os.path.join(folder.path, "transcript.md")
    before = read_bytes(transcript)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(MessageAdded(user("second")))
        session.append(TurnEnded("done"))
        with monkeypatch.context() as patch:
            patch.setattr("halo.sessions.derived.replace_file", failing(errno.ENOSPC))
            with pytest.raises(OSError, match="No space"):
                write_derived(session)
        after = read_bytes(transcript)
        assert b"second" in after
        damage = {"nothing": before, "half": after[:-4], "whole": after, "other": b""}
        with open(transcript, "wb") as file:
            file.write(damage[left])
        write_derived(session)
    assert read_bytes(transcript) == after


@pytest.mark.skipif(os.name == "nt", reason="symlinks need a privilege on Windows")
def test_a_transcript_that_is_a_link_is_replaced_not_followed(tmp_path):
    folder = begin(tmp_path)
    transcript = os.path.join(folder.path, "transcript.md")
    elsewhere = tmp_path / "elsewhere"
    os.rename(transcript, elsewhere)
    before = elsewhere.read_bytes()
    os.symlink(elsewhere, transcript)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        write_derived(session)
    assert elsewhere.read_bytes() == before
    assert not os.path.islink(transcript)


def test_the_newest_session_with_the_agent_goes_on(tmp_path):
    begin(tmp_path, "default", NOW)
    second = begin(tmp_path, "default", NOW + 10**9)
    begin(tmp_path, "worker", NOW + 2 * 10**9)
    begin(tmp_path, "default", NOW + 3 * 10**9, origin="parent")
    assert newest(str(tmp_path), "default", "cli", str(tmp_path)).folder.id == second.id
    assert newest(str(tmp_path), "default", "cli", str(tmp_path)).notices == ()
    assert len(list(session_ids(str(tmp_path)))) == 4
    assert (
        choose(str(tmp_path), None, "cli", home=str(tmp_path), named=None, new=False).folder.id == second.id
    )
    assert choose(str(tmp_path), None, "cli", home=str(tmp_path), named=None, new=True).folder is None


def test_an_unknown_session_is_the_users_mistake(tmp_path):
    folder = begin(tmp_path)
    with pytest.raises(UnknownNameError) as caught:
        find_session(str(tmp_path), folder.id[:-1] + "?")
    assert folder.id in str(caught.value)
    assert caught.value.exit_code == 2
    with pytest.raises(UnknownNameError):
        find_session(str(tmp_path), "../../etc")


def test_a_session_is_never_carried_on_by_another_agent(tmp_path):
    folder = begin(tmp_path, "default")
    with pytest.raises(UsageError, match="is with agent 'default'"):
        choose(str(tmp_path), "worker", "cli", home=str(tmp_path), named=folder.id, new=False)
    assert (
        choose(str(tmp_path), None, "cli", home=str(tmp_path), named=folder.id, new=False).target.agent
        == "default"
    )


def test_a_session_goes_on_with_the_target_that_it_was_begun_with(tmp_path):
    """Role, directory, access: a session of a sub-agent is not silently carried on as root."""
    fields = {"role": "sub", "directory": "pkg/api", "mode": "minimal", "access": "readonly"}
    folder = begin(tmp_path, "worker", **fields)
    target = AgentTarget("worker", **fields)
    for named in (folder.id, None):
        assert (
            choose(str(tmp_path), "worker", "cli", home=str(tmp_path), named=named, new=False).target
            == target
        )
    header = json.loads(read_bytes(os.path.join(folder.path, "session.json")))
    assert header["agent"] == "worker"
    assert header["target"] == {"kind": "agent", "agent": "worker", **fields}


def test_every_field_of_a_target_is_kept():
    """A field that AgentTarget gets one day must be written down as well; a profile is a matter of one turn."""
    assert {f.name for f in msgspec.structs.fields(AgentTarget)} - {"profile"} == {
        f.name for f in msgspec.structs.fields(SessionTarget)
    } - {"kind"}
    target = AgentTarget("a", "sub", "d", "none", "windows", "workspace")
    assert SessionTarget.of(target).target() == target


# other sessions that are damaged


def spoil(folder, how):
    if how == "no file":
        os.unlink(folder.events)
        os.mkdir(folder.events)
    else:
        with open(folder.events, "r+b") as file:
            file.write(b"XXXXXXXXXXXX")  # the beginning is lost, the rest is readable
    os.unlink(os.path.join(folder.path, "session.json"))


@pytest.mark.parametrize("how", ["no file", "no beginning"])
def test_a_damaged_session_does_not_stand_in_the_way_of_others(tmp_path, how):
    good = begin(tmp_path, "default", NOW)
    damaged = [begin(tmp_path, "default", NOW + n * 10**9) for n in range(1, 6)]
    for folder in damaged:
        spoil(folder, how)
    choice = choose(str(tmp_path), None, "cli", home=str(tmp_path), named=None, new=False)
    assert choice.folder.id == good.id
    (notice,) = choice.notices
    assert damaged[-1].id in notice
    assert "and 2 more" in notice
    # Nobody is told of what was not looked for.
    assert choose(str(tmp_path), None, "cli", home=str(tmp_path), named=None, new=True).notices == ()


@pytest.mark.parametrize("how", ["no file", "no beginning"])
def test_a_damaged_session_that_is_named_is_an_error(tmp_path, how):
    folder = begin(tmp_path)
    spoil(folder, how)
    with pytest.raises(LogError) as caught:
        choose(str(tmp_path), None, "cli", home=str(tmp_path), named=folder.id, new=False)
    assert caught.value.file == folder.events


def test_a_session_that_died_while_it_was_created_is_passed_over_quietly(tmp_path):
    good = begin(tmp_path, "default", NOW)
    died = SessionFolder(str(tmp_path), new_session_id(NOW + 10**9, b"aaaaaa"))
    died.open(now, create=True).close()
    choice = choose(str(tmp_path), None, "cli", home=str(tmp_path), named=None, new=False)
    assert (choice.folder.id, choice.notices) == (good.id, ())


def test_opening_what_is_not_there_makes_nothing(tmp_path):
    with pytest.raises(LogError, match="no log here"):
        SessionFolder(str(tmp_path), new_session_id(NOW, b"aaaaaa")).open(now)
    assert os.listdir(tmp_path) == []


# writing that fails


def failing(number):
    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("broken", ["write_all", "fsync"])
def test_after_a_failed_append_nothing_more_goes_into_the_log(tmp_path, monkeypatch, broken):
    """Whether the event is there is unknown: a second one with its number would contradict it."""
    folder = begin(tmp_path)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        with monkeypatch.context() as patch:
            patch.setattr(ops, broken, failing(errno.EIO))
            with pytest.raises(LogError, match="Input/output error"):
                session.append(MessageAdded(user("lost?")))
        with pytest.raises(LogError, match="takes no more"):
            session.append(TurnEnded("error"))
        assert not session.sound
    with folder.open(now) as session:
        assert session.conversation.ended == TurnEnded("interrupted", mended=True)
    seqs = [msgspec.json.decode(li.record, type=Event).seq for li in read_log(folder.events) if li.record]
    assert seqs == list(range(1, len(seqs) + 1))


WRITER = """
import sys
from halo.records.events import MessageAdded, TurnStarted
from halo.records.messages import user
from halo.sessions.folder import SessionFolder
import time
with SessionFolder(sys.argv[1], sys.argv[2]).open(time.time_ns) as session:
    session.append(TurnStarted("a", "f"), turn=session.conversation.turn + 1)
    number = 0
    while True:
        number += 1
        session.append(MessageAdded(user(f"message {number}")))
        print(number, flush=True)
"""


def test_an_acknowledged_event_survives_kill_9(tmp_path):
    """Kill the writer at random moments: whatever it said it had appended is in the log, once."""
    folder = begin(tmp_path)
    for round_ in range(8):
        before = len(folder.read().history())
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), folder.id], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(0.005 * round_)
        process.send_signal(signal.SIGKILL)
        acknowledged = 1 + len(process.stdout.read().splitlines())
        process.stdout.close()
        process.wait()
        history = folder.read().history()[before:]
        numbers = [int(m.text.split()[1]) for m in history]
        assert numbers[:acknowledged] == list(range(1, acknowledged + 1))
        assert len(numbers) <= acknowledged + 1
        folder.open(now).close()  # the lock went with the process; the dead turn is mended


def test_a_session_that_came_with_the_folder_is_not_gone_on_with(tmp_path):
    """Git can be made to carry one; what stands in it, somebody else said. It can still be named."""
    sessions, home = tmp_path / "sessions", str(tmp_path / "home")
    foreign = begin(sessions)  # sealed with another key
    choice = choose(str(sessions), None, "cli", home=home, named=None, new=False)
    assert choice.folder is None
    assert foreign.id in choice.notices[0]
    named = choose(str(sessions), None, "cli", home=home, named=foreign.id, new=False)
    assert named.folder.id == foreign.id


@pytest.mark.parametrize("level", ["sessions", "month", "session"])
def test_a_link_on_the_way_to_a_session_is_refused(tmp_path, level):
    sessions = tmp_path / "sessions"
    folder = begin(sessions)
    path = {"sessions": sessions, "month": sessions / month_of(folder.id), "session": None}[level]
    moved = tmp_path / "elsewhere"
    target = path if path is not None else sessions / month_of(folder.id) / folder.id
    target.rename(moved)
    target.symlink_to(moved)
    before = read_bytes(folder.events)
    with pytest.raises(OSError, match="a link where Halo keeps its own files"):
        folder.open(now)
    assert read_bytes(folder.events) == before


def test_damage_to_the_first_line_costs_that_line_alone(tmp_path):
    """Every turn repeats whom the session is with, so it goes on by itself and by name."""
    folder = begin(tmp_path)
    with folder.open(now) as session:
        session.append(TurnStarted("artifact", "print", session=session.conversation.created), turn=2)
        session.append(MessageAdded(user("And now?")))
        session.append(TurnEnded("done"))
    spoil(folder, "no beginning")
    for named in (folder.id, None):
        choice = choose(str(tmp_path), None, "cli", home=str(tmp_path), named=named, new=False)
        assert choice.folder.id == folder.id
        assert choice.target == AgentTarget("default")
    assert folder.read().history()[-1] == user("And now?")
