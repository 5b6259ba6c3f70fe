"""A fork goes on behind any turn of another session, which stays as it is."""

import os

import pytest
from hypothesis import given, settings
from kept import Shelf, photograph
from test_exchange import TURNS, histories, talked

from halo.errors import LogError, UsageError
from halo.files.log import CheckedLog
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, TurnStarted, UsageReported
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.session_events import ChildStarted, SessionChanged
from halo.records.usage import Usage
from halo.sessions.derived import read_header
from halo.sessions.find import begun_here
from halo.sessions.forking import fork
from halo.sessions.history import Conversation


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "sessions", tmp_path / "home")


def forked(shelf, folder, turn=None):
    return fork(shelf.sessions, shelf.home, folder, turn, shelf.clock)


def up_to(folder, turn):
    """What the source was worth when a turn, and what was done behind it, was over."""
    conversation = Conversation()
    for event in folder.read_events():
        if event.turn <= turn:
            conversation.add(event)
    return conversation.history()


@given(turns=TURNS)
@settings(max_examples=20)
def test_a_fork_of_any_turn_starts_from_what_the_source_was_then(tmp_path_factory, turns):
    """Also where a summary took the place of what was said."""
    shelf = Shelf(tmp_path_factory.mktemp("s"), tmp_path_factory.mktemp("h"))
    folder = talked(shelf, turns)
    before = photograph(folder.path)
    for turn in range(1, len(turns) + 1):
        made = forked(shelf, folder, turn)
        assert made.turn == turn
        assert made.missing == ()
        assert made.folder.read().history() == up_to(folder, turn)
        assert read_header(made.folder).turns == turn
        again = forked(shelf, made.folder)  # a fork of a fork
        assert histories(again.folder) == histories(made.folder)
    assert photograph(folder.path) == before


def test_both_go_on_and_do_not_see_each_other(shelf):
    folder = shelf.talk(None, "one", "two", "L" * 200_000)
    made = forked(shelf, folder, 2).folder
    shelf.talk(made, "in the fork")
    shelf.talk(folder, "in the source")
    assert [m.text for m in made.read().history()[::2]] == ["one", "two", "in the fork"]
    assert [m.text[:3] for m in folder.read().history()[::2]] == ["one", "two", "LLL", "in "]
    whole = forked(shelf, folder).folder
    os.rename(folder.path, folder.path + ".away")  # attachments are its own
    assert whole.read().damaged == []


def test_a_fork_has_what_was_set_and_nothing_that_was_paid_or_started(shelf):
    folder = shelf.talk(None, "one", key="agent:a:main")
    with folder.open(shelf.clock) as session:
        session.append(ChildStarted("20260921t141320-abcdef", "b"))
        for name, value in (("title", "Tides"), ("model", "=fast"), ("archived", "mira")):
            session.append(SessionChanged(name, value), turn=0)
    shelf.put(folder)
    made = forked(shelf, folder).folder
    header = read_header(made)
    assert header.settings == {"title": "Tides", "model": "=fast"}
    assert (header.calls, header.cost, header.usage) == (0, 0.0, Usage())
    assert (header.key, header.previous, made.read().created.reason) == ("", folder.id, "fork")
    assert made.read().standing.children == {}
    assert begun_here(header, shelf.home)
    assert not os.path.exists(os.path.join(made.path, "inbox"))
    with made.open(shelf.clock) as session:  # what it uses itself counts
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(UsageReported("played", "m", Usage(uncached=7), "digest"))
        session.append(TurnEnded("done"))
    assert read_header(made).usage == Usage(uncached=7)


def test_a_turn_that_runs_or_was_never_there_is_no_place_to_go_on_from(shelf):
    folder = shelf.begin()
    with pytest.raises(UsageError, match="no turn of this session is over yet"):
        forked(shelf, folder)
    shelf.talk(folder, "one")
    with folder.open(shelf.clock) as session:
        session.append(TurnStarted("artifact", "print"), turn=2)
        session.append(MessageAdded(user("two")))
        session.append(MessageAdded(Message("assistant", (ToolCall("c", "grep", "{}"),))))
        assert forked(shelf, folder).turn == 1
        with pytest.raises(UsageError, match="turn 2 is not over"):
            forked(shelf, folder, 2)
        with pytest.raises(UsageError, match="there is no turn 3"):
            forked(shelf, folder, 3)
        session.append(ToolResultAdded(ToolResult("c", "found"), "grep"))
        session.append(MessageAdded(Message("assistant", (Text("Done."),))))
        session.append(TurnEnded("done"))
    assert forked(shelf, folder).turn == 2


def test_what_of_the_source_is_lost_is_said(shelf):
    folder = shelf.talk(None, "one", "two")
    with open(folder.events, "rb+") as file:
        lines = file.readlines()
        file.seek(0)
        file.write(b"".join([*lines[:3], lines[3].replace(b"You said", b"You sang"), *lines[4:]]))
    made = forked(shelf, folder)
    assert any("line 4" in problem for problem in made.missing)
    assert [m.text for m in made.folder.read().history()] == ["one", "two", "You said: two"]


def test_what_a_newer_version_wrote_is_left_to_it(shelf):
    folder = shelf.talk()
    with CheckedLog.open(folder.events) as log:
        log.append(
            b'{"format":2,"seq":7,"ts":"2026-09-21T14:13:25.123Z","type":"message","turn":1,"data":{}}'
        )
    with pytest.raises(LogError, match="newer version of Halo"):
        forked(shelf, folder)
