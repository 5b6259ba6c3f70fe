"""What is done to sessions as folders: trees, archives, deletion, search, and reading along."""

import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept import Shelf, photograph, read_bytes

from halo.errors import BusyError, LogError, SessionKeyError, UnknownNameError, UsageError
from halo.files.seal import machine_key
from halo.records.events import MessageAdded, TurnStarted
from halo.records.headers import Header
from halo.records.incoming import Sender, Source
from halo.records.messages import user
from halo.records.session_events import ReportSent, SessionRolledOver
from halo.records.usage import Usage
from halo.sessions import folder as folder_module
from halo.sessions.derived import read_header
from halo.sessions.find import newest, session_ids
from halo.sessions.inbox.marks import mark, marked
from halo.sessions.keeping.archived import is_archived
from halo.sessions.keeping.changing import archive, rename, unarchive
from halo.sessions.keeping.deleting import delete, plan
from halo.sessions.keeping.families import as_tree, below, family
from halo.sessions.keeping.listing import View, Wanted, entry_of, list_sessions
from halo.sessions.keeping.naming import named_session
from halo.sessions.keeping.searching import Match, matches, query_of
from halo.sessions.keeping.showing import show
from halo.sessions.keeping.tailing import LogReader, Turns
from halo.sessions.reading import Unread, payload_of

LATER = datetime(2026, 9, 22, tzinfo=UTC)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


def view(shelf, **change):
    return View(shelf.sessions, shelf.home, machine_key(shelf.home), LATER)._replace(**change)


def ids(shelf, limit=0, **wanted):
    return [header.id for header in list_sessions(view(shelf), Wanted(**wanted), limit).headers]


def bare(session_id, parent="", **more):
    """A header with no more than its relatives."""
    fields = {"agent": "a", "target": None, "origin": "cli", "title": "", "created_at": "", "updated_at": ""}
    figures = {"seq": 1, "turns": 1, "model": "", "artifact": "", "usage": Usage(), "log_bytes": 1}
    return Header(format=1, id=session_id, parent=parent, **{**fields, **figures, **more})


# Lists


def test_a_list_can_be_filtered(shelf):
    main = shelf.talk(key="agent:a:main")
    group = shelf.talk(key="agent:a:slack:group:c1")
    other = shelf.talk(agent="b", key="agent:b:hook:x")
    assert ids(shelf) == [other.id, group.id, main.id]
    assert ids(shelf, agent="a") == [group.id, main.id]
    assert ids(shelf, kinds=frozenset({"main", "hook"})) == [other.id, main.id]
    assert ids(shelf, key="agent:a:slack:group:c1") == [group.id]
    changed = datetime.fromisoformat(read_header(group).updated_at)
    assert ids(shelf, since=changed) == [other.id, group.id]


def test_a_limit_keeps_those_that_changed_last_and_counts_the_rest(shelf):
    old = shelf.talk()
    rest = [shelf.talk().id for _ in range(3)]
    shelf.talk(old, "again")
    found = list_sessions(view(shelf), Wanted(), 2)
    assert [header.id for header in found.headers] == [old.id, rest[-1]]
    assert found.more == 2


def test_an_entry_says_what_waits_and_whose_it_is(shelf, tmp_path):
    folder = shelf.talk()
    shelf.put(folder)
    stranger = Shelf(shelf.sessions, tmp_path / "elsewhere")
    stranger.clock = shelf.clock
    other = stranger.talk()
    mine, theirs = (entry_of(view(shelf), read_header(f)) for f in (folder, other))
    assert (mine.waiting, mine.foreign, mine.status) == (1, False, "idle")
    assert theirs.foreign
    assert msgspec.json.decode(msgspec.json.encode(mine))["transcript_path"].startswith(".halo/sessions/")


def test_a_turn_that_runs_is_told_from_one_whose_process_died(shelf):
    folder = shelf.talk()
    shelf.break_off(folder)
    assert entry_of(view(shelf), read_header(folder)).status == "idle"
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", "print"), turn=3)
        assert entry_of(view(shelf), read_header(folder)).status == "running"


def test_looking_whether_a_session_is_held_keeps_nobody_out(shelf, monkeypatch):
    """Complaint 31: whoever looks holds the lock for a moment, and whoever wants it waits that long."""
    assert folder_module._GRACE > 0
    monkeypatch.setattr(folder_module, "_GRACE", 10.0)  # for a machine that does other things meanwhile
    folder = shelf.talk(derive=False)
    shelf.break_off(folder)
    header, stop = read_header(folder), threading.Event()

    def look():
        while not stop.is_set():
            entry_of(view(shelf), header)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(100):
            folder.open(shelf.clock).close()
    finally:
        stop.set()
        looking.join()


def test_a_session_is_named_by_its_id_or_its_key(shelf):
    old = shelf.talk(key="agent:a:main")
    new = shelf.talk(key="agent:a:main", previous=old.id)
    with old.open(shelf.clock) as session:
        session.append(SessionRolledOver(new.id, "/new"), turn=0)
    assert named_session(shelf.sessions, shelf.home, old.id).id == old.id
    assert named_session(shelf.sessions, shelf.home, "agent:a:main").id == new.id
    archive(shelf.sessions, read_header(new), shelf.clock)
    assert named_session(shelf.sessions, shelf.home, "agent:a:main").id == new.id
    for name, error in (
        ("agent:b:main", UnknownNameError),
        ("nonsense", UnknownNameError),
        ("a:", SessionKeyError),
    ):
        with pytest.raises(error):
            named_session(shelf.sessions, shelf.home, name)


# Trees


def test_a_tree_has_children_below_those_that_started_them():
    headers = [bare("d", "b"), bare("c", "a"), bare("b", "a"), bare("a"), bare("x", "gone")]
    assert [(b.depth, b.header.id) for b in as_tree(headers)] == [
        (0, "a"),
        (1, "c"),
        (1, "b"),
        (2, "d"),
        (0, "x"),
    ]
    assert [(b.depth, b.header.id) for b in below(headers, "b")] == [(1, "d")]
    assert [(b.depth, b.header.id) for b in below(headers, "a")] == [(1, "c"), (1, "b"), (2, "d")]


@given(st.lists(st.sampled_from(["", "0", "1", "2", "3", "4", "gone"]), max_size=6))
def test_whatever_parents_are_claimed_each_session_comes_once(parents):
    headers = [bare(str(number), parent) for number, parent in enumerate(parents)]
    assert sorted(b.header.id for b in as_tree(headers)) == sorted(h.id for h in headers)
    for header in headers:
        assert header.id not in {b.header.id for b in below(headers, header.id)}


# Titles and archives


def test_a_title_is_set_and_taken_back(shelf):
    folder = shelf.talk(None, "What is up?")
    rename(folder, "  Of   tides\n", shelf.clock)
    assert read_header(folder).title == "Of tides"
    shelf.talk(folder, "more")
    assert read_header(folder).title == "Of tides"
    rename(folder, "", shelf.clock)
    assert read_header(folder).title == "What is up?"
    with pytest.raises(UsageError, match="at most"):
        rename(folder, "x" * 201, shelf.clock)


def test_a_tree_is_archived_as_a_whole_and_comes_back(shelf):
    top = shelf.talk()
    child = shelf.child(top)
    apart = shelf.talk()
    assert archive(shelf.sessions, read_header(top), shelf.clock) == [top.id, child.id]
    assert ids(shelf) == [apart.id]
    assert set(ids(shelf, archived=True)) == {top.id, child.id, apart.id}
    assert archive(shelf.sessions, read_header(top), shelf.clock) == []
    assert unarchive(shelf.sessions, read_header(top), shelf.clock) == [top.id, child.id]
    assert set(ids(shelf)) == {top.id, child.id, apart.id}


@pytest.mark.parametrize("why", ["a turn runs", "a message waits"])
def test_nothing_is_archived_unless_all_of_it_can_be(shelf, why):
    top = shelf.talk()
    child = shelf.child(top)
    before = photograph(shelf.sessions)
    if why == "a turn runs":
        with child.open(shelf.clock), pytest.raises(BusyError, match=child.id):
            archive(shelf.sessions, read_header(top), shelf.clock)
    else:
        shelf.put(child)
        before = photograph(shelf.sessions)
        with pytest.raises(BusyError, match="1 message waits"):
            archive(shelf.sessions, read_header(top), shelf.clock)
    assert photograph(shelf.sessions) == before


def test_what_waits_for_an_archived_session_is_taken_when_it_is_out_again(shelf):
    folder = shelf.talk()
    archive(shelf.sessions, read_header(folder), shelf.clock)
    shelf.put(folder)
    assert marked(shelf.sessions) == []
    unarchive(shelf.sessions, read_header(folder), shelf.clock)
    assert marked(shelf.sessions) == [folder.id]


def test_a_child_puts_itself_away_an_hour_after_its_report():
    report = {"parent": "p", "report": "done", "updated_at": "2026-09-22T10:00:00.000Z"}
    at = datetime(2026, 9, 22, 10, tzinfo=UTC)
    assert not is_archived(bare("c", **report), at + timedelta(minutes=60))
    assert is_archived(bare("c", **report), at + timedelta(minutes=61))
    assert is_archived(bare("c", **report), at + timedelta(minutes=6), minutes=5)
    for change in ({"parent": ""}, {"report": ""}, {"updated_at": "damaged"}):
        assert not is_archived(bare("c", **{**report, **change}), at + timedelta(days=9))
    assert is_archived(bare("c", settings={"archived": "yes"}), at)


# Deletion


def test_deletion_says_what_goes_and_takes_all_that_was_started_below(shelf):
    top = shelf.talk(None, "X" * 70_000)
    child = shelf.child(top)
    apart = shelf.talk()
    mark(shelf.sessions, child.id)
    deletion = plan(shelf.sessions, top)
    assert [(d.depth, d.folder.id) for d in deletion.doomed] == [(0, top.id), (1, child.id)]
    on_disk = [p for f in (top, child) for p in _files(f.path)]
    assert deletion.size == (len(on_disk), sum(os.path.getsize(p) for p in on_disk))
    assert deletion.size.bytes > 140_000  # attachments, too
    before = photograph(apart.path)
    delete(shelf.sessions, deletion, force=False)
    assert list(session_ids(shelf.sessions)) == [apart.id] == ids(shelf)
    assert photograph(apart.path) == before
    assert marked(shelf.sessions) == []
    month = os.path.dirname(apart.path)
    assert sorted(os.listdir(month)) == [apart.id, "index.jsonl", "index.lock"]
    index = read_bytes(os.path.join(month, "index.jsonl"))  # where it would keep artifacts from `halo gc`
    assert top.id.encode() not in index
    assert apart.id.encode() in index


def _files(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]


def test_a_session_that_runs_is_not_deleted_nor_is_anything_with_it(shelf):
    top = shelf.talk()
    child = shelf.child(top)
    deletion = plan(shelf.sessions, top)
    with child.open(shelf.clock), pytest.raises(BusyError, match=child.id):
        delete(shelf.sessions, deletion, force=True)
    assert top.exists()
    assert child.exists()


def test_what_waits_and_a_report_that_was_not_heard_need_force(shelf):
    top = shelf.talk()
    child = shelf.child(top)
    assert plan(shelf.sessions, child).objections == (
        f"session {top.id}, which started {child.id}, has not heard its report",
    )
    with pytest.raises(UsageError, match="not heard"):
        delete(shelf.sessions, plan(shelf.sessions, child), force=False)
    with top.open(shelf.clock) as session:
        sources = (Source("r", Sender("report", session=child.id)),)
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(MessageAdded(user("It is done."), sources=sources))
    assert plan(shelf.sessions, child).objections == ()
    shelf.put(child)
    assert plan(shelf.sessions, child).objections == (f"1 message waits for session {child.id}",)
    delete(shelf.sessions, plan(shelf.sessions, child), force=True)
    assert not child.exists()


def test_what_came_since_it_was_said_is_an_objection(shelf):
    folder = shelf.talk()
    deletion = plan(shelf.sessions, folder)
    shelf.put(folder)
    with pytest.raises(UsageError, match="waits"):
        delete(shelf.sessions, deletion, force=False)
    child = shelf.child(folder)
    with pytest.raises(BusyError, match=child.id):
        delete(shelf.sessions, deletion, force=True)
    assert folder.exists()


def test_a_session_that_cannot_be_read_can_be_deleted(shelf):
    folder = shelf.talk()
    for name in ("events.jsonl", "session.json"):
        with open(os.path.join(folder.path, name), "w") as file:
            file.write("not ours\n")
    deletion = plan(shelf.sessions, folder)
    assert len(deletion.doomed) == 1
    delete(shelf.sessions, deletion, force=False)
    assert not os.path.exists(folder.path)


def test_no_link_leads_a_deletion_elsewhere(shelf, tmp_path):
    folder = shelf.talk()
    elsewhere = tmp_path / "elsewhere"
    os.rename(folder.path, elsewhere)
    os.symlink(elsewhere, folder.path)
    before = photograph(elsewhere)
    with pytest.raises(OSError, match="link"):
        delete(shelf.sessions, plan(shelf.sessions, folder), force=True)
    assert photograph(elsewhere) == before


# Showing


def test_what_is_shown_is_what_the_log_says(shelf):
    top = shelf.talk(None, "first question", "second")
    child = shelf.child(top)
    shown = show(view(shelf), top)
    assert [(t.turn, t.reason, t.calls, t.message) for t in shown.turns] == [
        (1, "done", 1, "first question"),
        (2, "done", 1, "second"),
    ]
    assert shown.events == 11
    assert [(depth, entry.session_id) for depth, entry in shown.children] == [(1, child.id)]
    assert (shown.damaged, shown.newer) == ((), ())


def test_lines_that_are_lost_are_counted_and_said(shelf):
    """Complaints 22 and 36: malformed lines do not vanish, and a gap in the numbers is noticed."""
    folder = shelf.talk(None, "one", "two")
    lines = read_bytes(folder.events).splitlines(keepends=True)
    with open(folder.events, "wb") as file:
        file.writelines([*lines[:3], b"{garbage}\n", b"more\n", *lines[6:8], *lines[9:]])
    shown = show(view(shelf), folder)
    assert shown.damaged == (
        "line 4: checksum is absent or wrong",
        "line 5: checksum is absent or wrong",
        "events 4 to 6 are missing",
        "event 9 is missing",
    )
    with open(folder.events, "ab") as file:
        file.write(lines[-1])
    assert show(view(shelf), folder).damaged[-1] == (
        "event 11 stands behind event 11: its number was there before"
    )


def test_a_damaged_line_explains_the_gap_that_it_leaves(shelf):
    folder = shelf.talk()
    lines = read_bytes(folder.events).splitlines(keepends=True)
    with open(folder.events, "wb") as file:
        file.writelines([*lines[:2], b"x" + lines[2][1:], *lines[3:]])
    assert show(view(shelf), folder).damaged == ("line 3: checksum is absent or wrong",)


# Search


def search(folder, text, *, regex=False, ignore_case=False, roles=()):
    query = query_of(text, regex=regex, ignore_case=ignore_case, roles=frozenset(roles))
    return [m for m in matches(folder, query) if isinstance(m, Match)]


def test_search_finds_turn_role_and_line(shelf):
    folder = shelf.talk(None, "nothing", "a\nthe tide is high\nb")
    found = search(folder, "tide")
    assert [(m.turn, m.role, m.line, m.text[m.start : m.end]) for m in found] == [
        (2, "user", 2, "tide"),
        (2, "assistant", 2, "tide"),
    ]
    assert len(search(folder, "tide", roles=["user"])) == 1
    assert search(folder, "Tide") == []
    assert len(search(folder, "TIDE", ignore_case=True)) == 2
    assert len(search(folder, r"t[ij]de\b", regex=True)) == 2
    assert search(folder, "t[ij]de") == []


def test_search_finds_what_lies_in_attachments_and_in_calls(shelf):
    folder = shelf.talk(None, "X" * 70_000 + "\nneedle")
    shelf.break_off(folder, result=True)
    assert [m.line for m in search(folder, "needle")] == [2, 2]
    assert [m.role for m in search(folder, "grep")] == ["tool"]
    assert [m.text for m in search(folder, "found")] == ["found"]


@given(
    st.text(alphabet="aAkKsS \"'\\/é\u017f\u212a\n\t\0İ", min_size=1, max_size=12),
    st.data(),
    st.booleans(),
)
def test_what_is_looked_at_first_hides_no_match(text, data, ignore_case):
    """The bytes of an event may be passed over only where nothing in it matches."""
    line = data.draw(st.sampled_from(text.split("\n")))
    start = data.draw(st.integers(0, len(line)))
    needle = line[start : data.draw(st.integers(start, len(line)))] or "a"
    needle = data.draw(st.sampled_from([needle, needle.swapcase(), needle.upper(), needle.lower()]))
    query = query_of(needle, regex=False, ignore_case=ignore_case, roles=frozenset())
    event = msgspec.json.encode(MessageAdded(user(text)))
    if any(query.pattern.search(each) for each in text.split("\n")):
        assert query.may_match(event)


def test_search_tells_of_what_it_could_not_read(shelf):
    folder = shelf.talk(None, "needle")
    with open(folder.events, "ab") as file:
        file.write(b'{"needle": but torn\n')
    found = list(matches(folder, query_of("needle", regex=False, ignore_case=False, roles=frozenset())))
    assert len([m for m in found if isinstance(m, Unread)]) == 1
    for bad in ("", "("):
        with pytest.raises(UsageError):
            query_of(bad, regex=True, ignore_case=False, roles=frozenset())


CONTROL = "".join(map(chr, range(0x20))) + "\x7f\x85\u2028\ufeff\U0001f469\u200d"


def test_control_characters_are_escaped_in_every_file_and_come_back(shelf):
    """Complaint 33: raw control characters of a stream that broke off made every later start crash."""
    folder = shelf.talk(None, CONTROL, key="agent:a:main")
    rename(folder, f"title {CONTROL}", shelf.clock)
    month = os.path.dirname(folder.path)
    for path in (
        folder.events,
        os.path.join(folder.path, "session.json"),
        os.path.join(month, "index.jsonl"),
    ):
        assert set(range(0x20)) & set(read_bytes(path)) == {0x0A}, path
    assert folder.read().messages[0].text == CONTROL
    (header,) = list_sessions(view(shelf), Wanted(), 0).headers
    assert header == read_header(folder)


# Reading along


def test_a_reader_gets_each_event_once_however_it_is_written(shelf):
    folder = shelf.talk(None, "one", "X" * 70_000)
    whole = read_bytes(folder.events)
    target = shelf.begin()
    with open(target.events, "wb"):
        pass
    os.rename(os.path.join(folder.path, "attachments"), os.path.join(target.path, "attachments"))
    got = []
    with LogReader(target) as reader, open(target.events, "ab", buffering=0) as file:
        for start in range(0, len(whole), 97):
            file.write(whole[start : start + 97])
            got.extend(event.seq for event in reader.read())
        assert got == list(range(1, 12))
        assert not reader.gone()
        os.unlink(target.events)
        assert reader.gone()


def test_what_stands_behind_the_last_newline_is_for_those_who_do_not_wait(shelf):
    folder = shelf.talk()
    data = read_bytes(folder.events)
    with open(folder.events, "wb") as file:
        file.write(data[:-1])
    with LogReader(folder) as reader:
        assert [event.seq for event in reader.read()] == [1, 2, 3, 4, 5]
        assert [event.seq for event in reader.end()] == [6]


def test_the_last_turns_are_let_through(shelf):
    folder = shelf.talk(None, "one", "two", "three")
    for turns, first in ((1, 12), (2, 7), (3, 1), (9, 1), (0, None)):
        through = Turns(3, turns)
        shown = [event.seq for event in folder.read_events() if through.shows(event)]
        assert (shown[0] if shown else None) == first, turns


def test_a_log_that_is_none_is_not_followed(shelf):
    folder = shelf.talk()
    os.unlink(folder.events)
    os.mkfifo(folder.events)
    with pytest.raises(LogError):
        LogReader(folder)


# Locks


def test_a_lock_whose_process_is_gone_holds_nothing_whatever_its_number_is_now(shelf):
    """Complaints 28, 29 and 32: the kernel knows the holder; the number in the file is for messages only."""
    folder = shelf.talk()
    with open(os.path.join(folder.path, "lock"), "w") as file:
        file.write(f"{os.getpid()}\n")  # alive, and not the one that wrote it
    folder.open(shelf.clock).close()
    assert newest(shelf.sessions, "a", "cli", shelf.home).folder.id == folder.id


def test_a_lock_ends_with_its_session(shelf):
    """Complaint 30."""
    folder = shelf.talk()
    with pytest.raises(ZeroDivisionError), folder.open(shelf.clock):
        raise ZeroDivisionError
    began = time.perf_counter()
    folder.open(shelf.clock).close()
    assert time.perf_counter() - began < 5


WRITER = """
import sys, time
from halo.errors import BusyError
from halo.records.events import ToolResultAdded
from halo.records.messages import ToolResult
from halo.sessions.folder import SessionFolder
folder = SessionFolder(sys.argv[1], sys.argv[2])
for number in range(20):
    name = f"{sys.argv[3]}-{number}"
    while True:
        try:
            with folder.open(time.time_ns) as session:
                session.append(ToolResultAdded(ToolResult(name, "X" * 5_000), "grep"))
            break
        except BusyError:
            pass
"""


def test_writers_that_compete_for_a_session_lose_no_line(shelf):
    """Complaint 19: one of them writes at a time, and every result is there once, in order."""
    folder = shelf.talk()
    arguments = [sys.executable, "-c", WRITER, shelf.sessions, folder.id]
    writers = [subprocess.Popen([*arguments, str(number)]) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    events = list(folder.read_events())
    assert [event.seq for event in events] == list(range(1, 87))
    results = [payload_of(event).data.result.call_id for event in events[6:]]
    assert sorted(results) == sorted(f"{writer}-{number}" for writer in range(4) for number in range(20))


def test_fifty_sessions_that_are_started_at_once_are_all_there(shelf):
    """Complaint 31: 10 fast starts lost one or two."""
    top, started, problems = shelf.talk(), [], []
    gate = threading.Barrier(50)

    def start():
        gate.wait()
        try:
            started.append(shelf.child(top).id)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a failure
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(set(started)) == 50
    assert {b.header.id for b in family(shelf.sessions, read_header(top))[1:]} == set(started)


def test_an_end_that_was_not_yet_reported_keeps_a_child_in_the_list(shelf):
    top = shelf.talk()
    child = shelf.child(top)
    assert child.id in ids(shelf)
    with child.open(shelf.clock) as session:
        session.append(ReportSent(top.id, f"report:{child.id}:1", "done"), turn=0)
    moment = LATER + timedelta(days=1)
    late = list_sessions(view(shelf, now=moment), Wanted(), 0).headers
    assert [header.id for header in late] == [top.id]
