"""The index of sessions: right whatever becomes of it, and no session depends on it."""

import json
import os
import re
import shutil
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import Shelf, read_bytes

from halo.errors import LogError
from halo.files.log import CheckedLog, encode_line
from halo.records.events import MessageAdded, TurnEnded, TurnStarted
from halo.records.headers import FORMAT, Header
from halo.records.messages import user
from halo.records.origins import Origin
from halo.records.usage import Usage
from halo.sessions import find
from halo.sessions.choice import choose
from halo.sessions.derived import header_of, read_header
from halo.sessions.index.lookup import headers, headers_below, headers_of_run, headers_with, listed
from halo.sessions.index.rows import NAME, note, read_rows
from halo.sessions.routing.finding import sessions_of
from halo.sessions.routing.grammar import parse_key

MONTH = "2026-09"


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


def index_of(shelf):
    return os.path.join(shelf.sessions, MONTH, NAME)


def truth(shelf):
    """What the logs say, newest first."""
    found = []
    for session_id in find.session_ids(shelf.sessions):
        folder = shelf.folder(session_id)
        size = os.path.getsize(folder.events)
        found.append(header_of(session_id, folder.read(), log_bytes=size))
    return found


def listing(shelf):
    return [msgspec.structs.replace(header, transcript_bytes=0) for header in headers(shelf.sessions)]


def test_every_turn_adds_one_row(shelf):
    folder = shelf.talk(None, "one", "two", "three")
    lines = read_bytes(index_of(shelf)).splitlines()
    assert [json.loads(line)["turns"] for line in lines] == [1, 2, 3]
    assert read_rows(shelf.sessions, MONTH) == {folder.id: read_header(folder)}


def test_a_list_is_what_the_logs_say_with_and_without_an_index(shelf):
    first = shelf.talk()
    shelf.child(first)
    shelf.begin()  # nobody has run it yet
    assert listing(shelf) == truth(shelf)
    os.unlink(index_of(shelf))
    assert listing(shelf) == truth(shelf)
    assert len(read_rows(shelf.sessions, MONTH)) == 3  # and it is there again


def test_rows_are_used_and_no_other_file_is_read(shelf, monkeypatch):
    """100,000 sessions are listed in a second because their folders are not opened (benchmarks/sessions.py)."""
    for _ in range(3):
        shelf.talk()
    expected = listing(shelf)
    monkeypatch.setattr("halo.sessions.index.lookup.read_header", lambda _: pytest.fail("it was read"))
    assert listing(shelf) == expected
    assert len(list(headers_with(shelf.sessions, agent="a"))) == 3


def test_a_row_that_is_older_than_its_log_is_not_believed(shelf):
    folder = shelf.talk()
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        assert next(headers(shelf.sessions)).turns == 2  # also while the turn runs
        session.append(MessageAdded(user("more")))
        session.append(TurnEnded("done"))
    (header,) = headers(shelf.sessions)
    assert (header.turns, header.ended) == (2, "done")


def test_an_index_that_is_cut_at_any_byte_costs_no_session(shelf):
    """A row that is torn costs itself alone, also for whoever writes behind it."""
    one, two = shelf.talk(), shelf.talk()
    expected, rows = listing(shelf), read_rows(shelf.sessions, MONTH)
    whole = read_bytes(index_of(shelf))
    first = whole.index(b"\n") + 1
    for cut in range(len(whole)):
        with open(index_of(shelf), "wb") as file:
            file.write(whole[:cut])
        note(shelf.sessions, rows[two.id])
        kept = {one.id, two.id} if cut >= first - 1 else {two.id}
        assert set(read_rows(shelf.sessions, MONTH)) == kept, cut
        assert listing(shelf) == expected, cut


def test_a_damaged_row_costs_itself_alone(shelf):
    for _ in range(3):
        shelf.talk()
    expected, whole = listing(shelf), read_bytes(index_of(shelf))
    for at in range(0, len(whole), 13):
        with open(index_of(shelf), "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert len(read_rows(shelf.sessions, MONTH)) >= 1
        assert listing(shelf) == expected


def test_the_file_does_not_grow_with_the_turns(shelf):
    header = read_header(shelf.talk())
    for turns in range(600):
        note(shelf.sessions, msgspec.structs.replace(header, turns=turns))
    assert os.path.getsize(index_of(shelf)) < 70_000
    assert read_rows(shelf.sessions, MONTH)[header.id].turns == 599


def test_rows_of_sessions_that_are_gone_are_not_listed_and_go_themselves(shelf):
    gone, header = shelf.talk(), read_header(shelf.talk())
    shutil.rmtree(gone.path)
    assert [found.id for found in headers(shelf.sessions)] == [header.id]
    for _ in range(200):
        note(shelf.sessions, header)
    assert set(read_rows(shelf.sessions, MONTH)) == {header.id}


WRITER = """
import sys
from halo.sessions.index import month_file
month_file._SLACK = 2_000  # so that it is rewritten all the time
sys.path.insert(0, sys.argv[3])
from kept import Shelf, NOW, SECOND
shelf = Shelf(sys.argv[1], sys.argv[2])
shelf.clock.ns = NOW + int(sys.argv[4]) * 1000 * SECOND
for _ in range(6):
    shelf.talk(None, "one", "two")
"""


def test_eight_processes_write_at_once(shelf, tmp_path):
    tests = os.path.dirname(os.path.dirname(__file__))
    arguments = [sys.executable, "-c", WRITER, shelf.sessions, shelf.home, tests]
    writers = [subprocess.Popen([*arguments, str(number)]) for number in range(8)]
    while any(writer.poll() is None for writer in writers):
        assert all(found.problem == "" for found in listed(shelf.sessions))
    assert [writer.returncode for writer in writers] == [0] * 8
    rows = read_rows(shelf.sessions, MONTH)
    assert len(rows) == 48
    assert {header.turns for header in rows.values()} == {2}
    assert listing(shelf) == truth(shelf)


@pytest.mark.parametrize("row", ["format 2", "another shape"])
def test_rows_of_a_later_version_are_passed_over_and_kept(shelf, row):
    folder, other = shelf.talk(), shelf.talk()
    document = msgspec.to_builtins(read_header(folder))
    change = {"format": FORMAT + 1} if row == "format 2" else {"usage": "much"}
    line = encode_line(msgspec.json.encode({**document, **change, "mood": "fine"}))
    with open(index_of(shelf), "ab") as file:
        file.write(line)
    assert listing(shelf) == truth(shelf)  # they are of the same log: the folder is read
    with open(index_of(shelf), "ab") as file:
        file.write(line)
    header = read_header(other)
    for _ in range(200):
        note(shelf.sessions, header)  # until it is rewritten
    assert line in read_bytes(index_of(shelf))


def test_a_session_of_a_later_version_is_listed(shelf):
    folder = shelf.talk()
    with CheckedLog.open(folder.events) as log:
        event = {"format": 2, "seq": 7, "ts": "t", "type": "message", "turn": 2, "data": {}}
        log.append(json.dumps(event).encode())
    (found,) = listed(shelf.sessions)
    assert found.header.agent == "a"


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "garbage"])
def test_something_else_in_its_place_hinders_no_list_and_no_turn(shelf, tmp_path, kind):
    folder = shelf.talk()
    expected = listing(shelf)
    os.unlink(index_of(shelf))
    target = tmp_path / "elsewhere"
    target.write_bytes(b"mine\n")
    match kind:
        case "folder":
            os.mkdir(index_of(shelf))
        case "pipe":
            os.mkfifo(index_of(shelf))
        case "link":
            os.symlink(target, index_of(shelf))
        case "garbage":
            with open(index_of(shelf), "wb") as file:
                file.write(b"\xff\0{}\n" * 1000)
    assert listing(shelf) == expected
    assert [h.id for h in headers_with(shelf.sessions, agent="a")] == [folder.id]
    if kind == "garbage":
        shelf.talk(folder)
    else:
        with pytest.raises((OSError, LogError)):  # which a turn tells of, and ends well
            shelf.talk(folder)
    assert target.read_bytes() == b"mine\n"
    assert next(headers(shelf.sessions)).turns == 2


def test_opening_one_depends_on_no_other(shelf):
    folder = shelf.talk()
    os.unlink(index_of(shelf))
    os.mkfifo(index_of(shelf))
    for name in ("20260922t000000-aaaaaa", "20260922t000000-bbbbbb"):
        os.makedirs(os.path.join(shelf.sessions, MONTH, name, "events.jsonl"))
    choice = choose(shelf.sessions, "a", "cli", home=shelf.home, named=folder.id, new=False)
    choice.open(shelf.clock).close()


def test_what_cannot_be_read_is_listed_with_the_reason(shelf):
    folder = shelf.talk()
    shelf.talk()
    os.unlink(folder.events)
    os.mkdir(folder.events)
    os.unlink(os.path.join(folder.path, "session.json"))
    (problem,) = [found for found in listed(shelf.sessions) if found.header is None]
    assert problem.id == folder.id
    assert "not a regular file" in problem.problem


def test_a_folder_that_may_not_be_written_to_is_listed(shelf, monkeypatch):
    shelf.talk(derive=False)
    refusal = OSError(30, "Read-only file system")

    def refuse(*_):
        raise refusal

    monkeypatch.setattr("halo.sessions.index.lookup.note_all", refuse)
    assert len(listing(shelf)) == 1


def test_relatives_are_found_by_the_index(shelf):
    top = shelf.talk()
    child = shelf.child(top)
    below = shelf.child(child, depth=2, root=top)
    shelf.child(shelf.talk())
    assert [h.id for h in headers_below(shelf.sessions, top.id)] == [below.id, child.id]
    assert [h.id for h in headers_of_run(shelf.sessions, top.id)] == [below.id, child.id, top.id]
    assert [h.id for h in headers_with(shelf.sessions, parent=top.id)] == [child.id]


def test_every_session_that_a_key_ever_had_is_found_without_an_index(shelf):
    """Complaint 20: a list for each key, and files that are found without the index."""
    key = parse_key("agent:a:main")
    had = [shelf.talk(key=key.text).id for _ in range(4)]
    for _ in range(2):
        found = sessions_of(shelf.sessions, shelf.home, key)
        assert [row.id for row in found.rows] == had[::-1]
        shutil.rmtree(os.path.join(shelf.sessions, "waiting"), ignore_errors=True)
        os.unlink(index_of(shelf))
        shelf.talk(agent="b")  # so that there is one again, without them


def test_opaque_ids_keep_their_case(shelf):
    for peer in ("U07ABC", "u07abc", "Ünïcode", "a/b\\c:d"):
        source = Origin(provider="slack", sender=peer)
        key = parse_key(f"agent:a:slack:direct:{peer}").text
        shelf.talk(key=key, source=source)
        (header,) = headers_with(shelf.sessions, key=key)
        assert header.source.sender == peer
    assert len({header.key for header in headers(shelf.sessions)}) == 4


def test_names_are_safe_on_every_file_system(shelf):
    """Of whatever stands in a key, nothing gets into a name: no case to fold, no word that a system reserves."""
    folder = shelf.talk(None, "X" * 70_000, key=parse_key("agent:a:direct:../CON:aux?<>|").text)
    shelf.put(folder, name="../../NUL")
    safe = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
    names = [n for _, folders, files in os.walk(shelf.sessions) for n in (*folders, *files)]
    assert len(names) >= 8
    assert all(safe.match(name) and not name.endswith(".") for name in names)
    assert len({name.lower() for name in names}) == len(set(names))


def test_archived_sessions_are_not_gone_on_with(shelf):
    from halo.sessions.keeping.changing import archive

    old, new = shelf.talk(), shelf.talk()
    archive(shelf.sessions, read_header(new), shelf.clock)
    assert find.newest(shelf.sessions, "a", "cli", shelf.home).folder.id == old.id


def test_the_newest_is_found_behind_many_of_others(shelf):
    wanted = shelf.talk(agent="rare")
    for _ in range(40):
        shelf.talk()
    found = find.newest(shelf.sessions, "rare", "cli", shelf.home)
    assert (found.folder.id, found.notices) == (wanted.id, ())


# Invariant: whatever is in the index, old, missing or twice, what is looked for is found, and nothing else.

KEYS = ["agent:a:main", 'agent:a:direct:"key":', "agent:a:direct:Ä", "agent:a:hook:x"]


class Written(Shelf):
    """Sessions whose logs are as small as they can be."""

    def __init__(self, folder):
        super().__init__(folder / "sessions", folder / "home")
        self.headers = [read_header(self.begin(key=key)) for key in KEYS for _ in range(3)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return Written(tmp_path_factory.mktemp("written"))


@given(st.data())
@settings(max_examples=60)
def test_no_index_hides_a_session(written, data):
    some = st.lists(st.sampled_from(written.headers), max_size=20)
    lines = []
    for header in data.draw(some):
        stale = data.draw(st.booleans())
        bytes_then = header.log_bytes - stale
        lines.append(encode_line(msgspec.json.encode(msgspec.structs.replace(header, log_bytes=bytes_then))))
        if data.draw(st.booleans()):
            lines.append(lines[-1][: data.draw(st.integers(0, len(lines[-1])))] + b"\n")
    with open(index_of(written), "wb") as file:
        file.write(b"".join(lines))
    for key in KEYS:
        found = [header.id for header in headers_with(written.sessions, key=key)]
        assert found == sorted((h.id for h in written.headers if h.key == key), reverse=True)
    assert list(headers(written.sessions)) == sorted(written.headers, key=lambda h: h.id, reverse=True)


def test_a_header_comes_back_from_its_row_as_it_was(shelf):
    folder = shelf.talk()
    header = Header(
        **{**msgspec.structs.asdict(read_header(folder)), "settings": {"title": "a\nb"}, "usage": Usage(1, 2)}
    )
    note(shelf.sessions, header)
    assert read_rows(shelf.sessions, MONTH)[folder.id] == header
