"""`halo session repair`: what it would do it says first, what it does it does once, and no log loses a byte."""

import itertools
import json
import os
import shutil

import msgspec
import pytest
from kept import SECOND, Shelf, photograph, read_bytes

from halo.files import ops
from halo.files.log import CheckedLog
from halo.records.events import MessageAdded, TurnEnded, TurnStarted
from halo.records.incoming import Sender, Source
from halo.records.messages import user
from halo.sessions.derived import read_header
from halo.sessions.find import session_ids
from halo.sessions.folder import INTERRUPTED, SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark, marked
from halo.sessions.index.rows import read_rows
from halo.sessions.keeping.damage import damage_of, reported
from halo.sessions.keeping.repairing import repair

MONTH = "2026-09"
DAY = 86_400 * SECOND


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


def look(shelf, *ids, apply=False, days=0):
    """What was found, by name: a list of texts."""
    outcomes = list(repair(shelf.sessions, ids, lambda: shelf.clock() + days * DAY, apply=apply))
    assert [outcome.failed for outcome in outcomes if outcome.failed] == []
    return {o.name: [f"{f.text}: {f.action}" for f in o.findings] for o in outcomes if o.findings}


def to_do(shelf, days=0):
    outcomes = repair(shelf.sessions, (), lambda: shelf.clock() + days * DAY, apply=False)
    return [f.text for o in outcomes for f in o.findings if f.remedy != "none"]


def cut(folder, *, at):
    with open(folder.events, "r+b") as file:
        file.truncate(at)


def change(path, old, new):
    data = read_bytes(path)
    assert old in data
    with open(path, "wb") as file:
        file.write(data.replace(old, new))


# What may be wrong with a session: how it comes about, what is found, what is so after the repair.


def torn(_shelf, folder):
    with open(folder.events, "ab") as file:
        file.write(b'{"torn": ')


def broken_off(shelf, folder):
    shelf.break_off(folder)


def without_header(_shelf, folder):
    os.unlink(os.path.join(folder.path, "session.json"))


def wrong_header(_shelf, folder):
    change(os.path.join(folder.path, "session.json"), b'"turns": 2', b'"turns": 7')


def without_transcript(_shelf, folder):
    os.unlink(os.path.join(folder.path, "transcript.md"))


def wrong_transcript(_shelf, folder):
    change(os.path.join(folder.path, "transcript.md"), b"What", b"When")


def damaged_line(_shelf, folder):
    change(
        folder.events,
        b'"content":[{"type":"text","text":"one"}]',
        b'"content":[{"type":"text","text":"two"}]',
    )


def lost_attachment(_shelf, folder):
    shutil.rmtree(os.path.join(folder.path, "attachments"))


def gap(_shelf, folder):
    lines = read_bytes(folder.events).splitlines(keepends=True)
    with open(folder.events, "wb") as file:
        file.writelines([*lines[:3], *lines[5:]])


def taken(shelf, folder):
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", "print"), turn=3)
        sources = (Source("later", Sender("user")),)
        session.append(MessageAdded(user("later"), sources=sources))
        session.append(TurnEnded("done"))
    shelf.put(folder, "later")


def untold(shelf, folder):
    shelf.put(folder)


def without_index(_shelf, folder):
    os.unlink(os.path.join(os.path.dirname(folder.path), "index.jsonl"))


def orphan_mark(shelf, folder):
    mark(shelf.sessions, folder.id)
    mark(shelf.sessions, "20260921t000000-gone00")


def temporary(shelf, folder):
    for name in (".session.json.77-0123456789ab.tmp", "inbox/.0.77-0123456789ab.tmp"):
        path = os.path.join(folder.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("half")
        moment = shelf.clock.ns / 1e9 - 90_000
        os.utime(path, (moment, moment))


def half_deleted(shelf, _folder):
    gone = os.path.join(shelf.sessions, MONTH, ".20260921t000000-gone00.0123456789ab.deleted")
    os.makedirs(gone)


BREAKAGES = {
    torn: "its last line broke off (9 bytes): close it with a newline; it stays where it is",
    broken_off: "turn 3 broke off: record that it was interrupted, and its call without a result as well",
    without_header: "session.json is missing: make it anew",
    wrong_header: "session.json is not what the log says: make it anew",
    without_transcript: "transcript.md is missing: make it anew",
    wrong_transcript: "transcript.md is not what the log says: make it anew",
    damaged_line: "its log is damaged: checksum is absent or wrong, line 3: write down what is lost in",
    lost_attachment: "its log is damaged: event 8: attachments/",
    gap: "its log is damaged: events 4 to 5 are missing, line 4: write down what is lost in damage.json",
    taken: "1 message in the inbox that the log has already: remove it from the inbox",
    untold: "1 message waiting, and no worker is told: mark the session",
    without_index: "1 of 1 rows are missing or old: make it anew",
    orphan_mark: "2 marks stand for nothing that waits: take them away",
    temporary: "2 files that a dead process left behind: remove them",
    half_deleted: "1 sessions are deleted, but not all of their files: remove the rest",
}


def conversation(shelf):
    return shelf.talk(None, "one", "What is up? " + "X" * 70_000)


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda b: b.__name__)
def test_what_is_wrong_is_said_first_and_repaired_once(shelf, breakage):
    folder = conversation(shelf)
    assert look(shelf) == {}
    breakage(shelf, folder)
    before, log = photograph(shelf.sessions), read_bytes(folder.events)
    said = look(shelf)
    assert any(text.startswith(BREAKAGES[breakage]) for texts in said.values() for text in texts), said
    assert photograph(shelf.sessions) == before  # nothing is written
    assert look(shelf, apply=True) == said  # and that is what is done
    assert to_do(shelf) == []
    assert read_bytes(folder.events).startswith(log)  # a log loses no byte
    after = photograph(shelf.sessions)
    look(shelf, apply=True)
    assert photograph(shelf.sessions) == after


def test_a_repaired_session_is_what_its_log_says(shelf):
    folder = conversation(shelf)
    expected = photograph(folder.path)
    for name in ("session.json", "transcript.md"):
        with open(os.path.join(folder.path, name), "wb") as file:
            file.write(b"\0")
    look(shelf, apply=True)
    assert photograph(folder.path) == expected
    assert read_rows(shelf.sessions, MONTH) == {folder.id: read_header(folder)}


def test_a_turn_whose_process_died_is_mended_in_the_log_and_once(shelf):
    """Complaint 37: a call without a result is answered on disk, not only in memory."""
    folder = conversation(shelf)
    shelf.break_off(folder)
    look(shelf, apply=True)
    first = read_bytes(folder.events)
    assert first.count(b'"mended":true') == 2
    assert folder.read().history()[-1].content[0].text == INTERRUPTED
    look(shelf, apply=True)
    assert read_bytes(folder.events) == first


def test_a_report_of_damage_says_where_it_is(shelf):
    folder = conversation(shelf)
    data = read_bytes(folder.events)
    lines = data.splitlines(keepends=True)
    bad = b'{"half": "\x1b[31mred\n'
    with open(folder.events, "wb") as file:
        file.writelines([*lines[:4], bad, *lines[4:]])
    look(shelf, apply=True)
    (lost,) = reported(folder).lost
    offset = sum(map(len, lines[:4]))
    assert read_bytes(folder.events)[lost.offset : lost.offset + lost.bytes] == bad
    assert (lost.line, lost.offset, lost.bytes) == (5, offset, len(bad))
    assert lost.text == '{"half": "\\x1b[31mred'
    document = json.loads(read_bytes(os.path.join(folder.path, "damage.json")))
    assert (document["format"], document["session"]) == (1, folder.id)
    assert "known" not in to_do(shelf)
    assert look(shelf)[folder.id][0].startswith(
        "its log is damaged: checksum is absent or wrong, line 5; damage"
    )


# What is left alone


def unreadable(folder):
    with open(folder.events, "wb") as file:
        file.write(b"not a log\n" * 3)


def first_line(folder):
    with open(folder.events, "wb") as file:
        file.write(b'{"seq": 1}\n')


def no_file(folder):
    os.unlink(folder.events)
    os.mkdir(folder.events)


def newer(folder):
    with CheckedLog.open(folder.events) as log:
        event = {"format": 2, "seq": 12, "ts": "t", "type": "message", "turn": 3, "data": {}}
        log.append(json.dumps(event).encode())
    with open(folder.events, "ab") as file:
        file.write(b'{"torn')


@pytest.mark.parametrize("breakage", [unreadable, first_line, no_file, newer])
def test_a_log_that_cannot_be_read_or_is_of_a_later_version_is_left_alone(shelf, breakage):
    """Complaint 35: a beginning that cannot be read never leads to a write."""
    folder = conversation(shelf)
    shelf.put(folder)
    breakage(folder)
    os.unlink(os.path.join(folder.path, "session.json"))
    before = photograph(folder.path)
    outcomes = {o.name: o for o in repair(shelf.sessions, (), shelf.clock, apply=True)}
    (finding,) = outcomes[folder.id].findings
    assert "left alone" in finding.text
    assert finding.wrong == (breakage is not newer)
    assert photograph(folder.path) == before


def test_a_session_that_somebody_holds_is_left_alone(shelf):
    folder = conversation(shelf)
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", "print"), turn=3)
        before = photograph(shelf.sessions)
        assert look(shelf, apply=True) == {folder.id: ["a process holds it: it is left alone: "]}
        assert photograph(shelf.sessions) == before
    assert folder.read().open_turn


def test_nothing_that_is_referred_to_or_recent_is_moved(shelf):
    """Complaint 21: a repair archived live transcripts as orphans."""
    live = [conversation(shelf), shelf.talk()]
    shelf.child(live[0])
    shelf.begin()  # nobody has said anything yet
    os.makedirs(os.path.join(shelf.sessions, MONTH, "20260921t000000-newone"))  # somebody is about to begin
    os.unlink(os.path.join(os.path.dirname(live[0].path), "index.jsonl"))
    for folder in live:
        os.unlink(os.path.join(folder.path, "session.json"))
    temporary(shelf, live[0])
    recent = os.path.join(live[1].path, ".session.json.77-0123456789ab.tmp")
    strange = os.path.join(live[1].path, "notes.txt")
    for path in (recent, strange):
        with open(path, "w") as file:
            file.write("somebody is at work")
        os.utime(path, (shelf.clock.ns / 1e9,) * 2)
    before = set(photograph(shelf.sessions))
    gone = {p for p in before if p.endswith(".tmp")} - {os.path.relpath(recent, shelf.sessions)}
    look(shelf, apply=True)
    assert before - set(photograph(shelf.sessions)) == gone
    assert len(list(session_ids(shelf.sessions))) == 5


def test_what_lies_in_an_inbox_stays_there_unless_the_log_has_it(shelf):
    folder = conversation(shelf)
    shelf.put(folder, "fresh")
    taken(shelf, folder)
    strange = os.path.join(folder.path, "inbox", "00000000000000000001-" + "0" * 32 + ".json")
    with open(strange, "w") as file:
        file.write("{}")
    look(shelf, apply=True)
    waiting, problems = Inbox(folder.path).waiting()
    assert [w.message.text for w in waiting] == ["fresh"]
    assert len(problems) == 1
    assert marked(shelf.sessions) == [folder.id]


def test_only_the_named_sessions_are_looked_at(shelf):
    one, two = conversation(shelf), shelf.talk()
    for folder in (one, two):
        without_header(shelf, folder)
    assert set(look(shelf, one.id, apply=True)) == {one.id}
    assert to_do(shelf) == ["session.json is missing"]
    assert not os.path.exists(os.path.join(two.path, "session.json"))


# Truncation


def test_a_log_that_is_cut_at_any_byte_can_be_read_and_repaired(shelf, tmp_path):
    """Complaint 34: the repair itself threw on a half-written last line. What was acknowledged is kept."""
    folder = shelf.begin()
    shelf.break_off(folder, result=True)
    data, events = read_bytes(folder.events), list(folder.read_events())
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    other = Shelf(tmp_path / "cut", tmp_path / "home")
    other.clock = shelf.clock
    target = SessionFolder(other.sessions, folder.id)
    os.makedirs(target.path)
    for size in range(len(data) + 1):
        with open(target.events, "wb") as file:
            file.write(data[:size])
        whole = sum(end - 1 <= size for end in ends)  # the newline itself may be missing
        found = list(target.read_events())
        assert [e for e in found if e in events] == events[:whole], size
        assert len(damage_of(target).lost) == (size not in (0, *ends, *(end - 1 for end in ends)))
        list(repair(other.sessions, (), other.clock, apply=False))
        if size % 25 == 0:
            outcomes = list(repair(other.sessions, (), other.clock, apply=True))
            assert [o.failed for o in outcomes if o.failed] == []
            assert read_bytes(target.events).startswith(data[:size])
            assert [e for e in target.read_events() if e in events] == events[:whole]
            if whole:
                assert to_do(other) == []
            for name in set(os.listdir(target.path)) - {"events.jsonl", "lock"}:
                os.unlink(os.path.join(target.path, name))


def test_a_repair_that_is_broken_off_is_done_again(shelf, monkeypatch):
    """Whatever write fails, the next repair finishes, and the log is what it would be."""
    folder = conversation(shelf)
    shelf.break_off(folder)
    wrong_transcript(shelf, folder)
    log = read_bytes(folder.events)
    refusal = OSError(28, "No space left on device")
    for number in itertools.count():
        left = iter(range(number))

        def write(fd, path, data, left=left):
            if next(left, None) is None:
                raise refusal
            return os.write(fd, data)

        with monkeypatch.context() as full:
            full.setattr(ops, "write", write)
            failed = [o.failed for o in repair(shelf.sessions, (), shelf.clock, apply=True) if o.failed]
        assert read_bytes(folder.events).startswith(log)
        if not failed:
            break
    assert number > 3
    assert to_do(shelf) == []
    assert read_bytes(folder.events).count(b'"mended":true') == 2
    assert (
        msgspec.json.decode(read_bytes(os.path.join(folder.path, "session.json")))["ended"] == "interrupted"
    )
