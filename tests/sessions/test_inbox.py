"""The inbox of a session: who puts, who takes, and what a crash between two steps leaves."""

import os
import subprocess
import sys

import pytest

from halo.errors import BusyError, LogError
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.sessions.inbox.folder import BOUND, LARGEST, Inbox

NOW = 1_790_000_000_000_000_000


def message(name="m1", text="Hello", **kind):
    return Incoming(FORMAT, name, "2026-10-02T00:00:00.000Z", text, Sender("user", owner=True), **kind)


@pytest.fixture
def inbox(tmp_path):
    (tmp_path / "s").mkdir()
    return Inbox(str(tmp_path / "s"))


def texts(inbox):
    return [w.message.text for w in inbox.waiting()[0]]


def test_messages_come_out_as_they_were_put_in_the_order_of_arrival(inbox):
    put = [message("a", "first", interrupt="soft"), message("b", "second", rounds=3)]
    for n, each in enumerate(put):
        assert inbox.put(each, NOW + n)
    waiting, problems = inbox.waiting()
    assert [w.message for w in waiting] == put
    assert problems == []


def test_a_clock_that_goes_back_changes_no_order(inbox):
    for n, at in enumerate((NOW, NOW - 10**12, 0, NOW - 1)):
        inbox.put(message(str(n), str(n)), at)
    assert texts(inbox) == ["0", "1", "2", "3"]


def test_an_id_waits_once(inbox):
    assert inbox.put(message("same", "one"), NOW)
    assert not inbox.put(message("same", "two"), NOW + 5)
    assert texts(inbox) == ["one"]


def test_any_text_is_an_id_and_none_leaves_the_folder(inbox):
    for name in ("../../x", "a/b", "", "\0", "ä" * 500, "A", "a"):
        assert inbox.put(message(name), NOW)
    assert len(inbox.waiting()[0]) == 7
    assert all(name.endswith(".json") for name in os.listdir(inbox.path))


def test_a_full_inbox_refuses_and_says_what_helps(inbox):
    for n in range(BOUND):
        inbox.put(message(str(n)), NOW + n)
    with pytest.raises(BusyError, match="256 messages waiting") as caught:
        inbox.put(message("more"), NOW)
    assert "halo worker" in caught.value.hint
    assert inbox.put(message("a report"), NOW, bound=None)


def test_a_message_that_is_too_large_is_refused_before_it_is_written(inbox):
    with pytest.raises(LogError, match="too large"):
        inbox.put(message(text="x" * (LARGEST + 1)), NOW)
    assert inbox.count() == 0


def test_what_cannot_be_read_stays_where_it_is_and_costs_itself_alone(inbox):
    inbox.put(message("good", "good"), NOW)
    torn, newer = f"{NOW + 1:020d}-{'0' * 32}.json", f"{NOW + 2:020d}-{'1' * 32}.json"
    for name, data in ((torn, '{"format":1'), (newer, None)):
        with open(os.path.join(inbox.path, name), "w") as file:
            file.write(
                data
                or '{"format": 9, "id": "n", "at": "", "text": "t", "sender": {"kind": "user"}, "new": true}'
            )
    waiting, problems = inbox.waiting()
    assert [w.message.text for w in waiting] == ["good"]
    assert torn in problems[0]
    assert "newer version" in problems[1]
    assert {torn, newer} <= set(os.listdir(inbox.path))


def test_other_files_are_left_alone(inbox):
    inbox.put(message(), NOW)
    for name in (".x.tmp", "README", "1-2.json"):
        with open(os.path.join(inbox.path, name), "w") as file:
            file.write("x")
    assert len(inbox.waiting()[0]) == 1
    inbox.remove(["README", "../s/x"])
    assert os.path.exists(os.path.join(inbox.path, "README"))


def test_an_inbox_that_is_a_link_is_refused(tmp_path):
    session, elsewhere = tmp_path / "s", tmp_path / "elsewhere"
    session.mkdir()
    elsewhere.mkdir()
    (session / "inbox").symlink_to(elsewhere)
    with pytest.raises(OSError, match="a link"):
        Inbox(str(session)).put(message(), NOW)
    assert os.listdir(elsewhere) == []


WRITER = """
import sys
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.sessions.inbox.folder import Inbox
folder, who, many = sys.argv[1:]
for n in range(int(many)):
    put = Incoming(FORMAT, f"{who}-{n}", "", f"{who}-{n}", Sender("user"))
    assert Inbox(folder).put(put, 1_790_000_000_000_000_000, bound=None)
"""


def test_many_processes_put_at_once_and_nothing_is_lost(tmp_path):
    """Complaint 19: N writers, no lost line."""
    (tmp_path / "s").mkdir()
    folder = str(tmp_path / "s")
    running = [subprocess.Popen([sys.executable, "-c", WRITER, folder, str(w), "25"]) for w in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]
    found = texts(Inbox(folder))
    assert sorted(found) == sorted(f"{w}-{n}" for w in range(4) for n in range(25))
    for w in range(4):  # each writer's messages in its own order
        assert [t for t in found if t.startswith(f"{w}-")] == [f"{w}-{n}" for n in range(25)]


def test_a_file_that_nests_without_end_costs_itself_alone(inbox):
    inbox.put(message("good", "good"), NOW)
    deep = b'{"format": 1, "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with open(os.path.join(inbox.path, f"{NOW + 1:020d}-{'0' * 32}.json"), "wb") as file:
        file.write(deep)
    waiting, (problem,) = inbox.waiting()
    assert [w.message.text for w in waiting] == ["good"]
    assert "recursion" in problem


def test_a_name_from_the_end_of_time_hides_no_message(inbox):
    os.mkdir(inbox.path)
    with open(os.path.join(inbox.path, f"{'9' * 20}-{'0' * 32}.json"), "w") as file:
        file.write("x")
    inbox.put(message(), NOW)
    assert texts(inbox) == ["Hello"]


def test_what_somebody_else_removed_is_removed(inbox):
    inbox.put(message(), NOW)
    (name,) = inbox.names()
    os.unlink(os.path.join(inbox.path, name))
    inbox.remove([name])
    assert inbox.count() == 0
