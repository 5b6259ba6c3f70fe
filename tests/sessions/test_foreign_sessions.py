"""A session that came with the folder: what it says of others is somebody's word, and nobody acts on it."""

import msgspec
import pytest
from kept import Shelf
from test_talk import Player, office, says  # noqa: F401  # a fixture

from halo.records.events import MessageAdded, TurnEnded, TurnStarted
from halo.records.incoming import Sender, Source
from halo.records.messages import Message, Text, user
from halo.records.outgoing import Address, Outgoing
from halo.records.session_events import ChildStarted, DeliveryDue
from halo.sessions.choice import choose
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.control import wanted_stop
from halo.sessions.inbox.folder import Inbox


class Clone:
    """A workspace whose sessions another machine wrote, but for those that are begun here."""

    def __init__(self, office, tmp_path):  # noqa: F811
        self.office = office
        self.here = Shelf(office.sessions, office.ws.home)
        self.there = Shelf(office.sessions, tmp_path / "another home")

    def session(self, *events, shelf=None, **relation):
        """A session with these events in its one turn."""
        folder = (shelf or self.there).begin(**relation)
        with folder.open(self.there.clock) as session:
            session.append(TurnStarted("artifact", "print"), turn=1)
            for event in events:
                session.append(event)
            session.append(MessageAdded(Message("assistant", (Text("What I say."),))))
            session.append(TurnEnded("done"))
        return folder

    def goes_on(self, folder):
        """The user goes on in it, by name."""
        home = str(self.office.ws.home)
        choice = choose(self.office.sessions, None, "cli", home=home, named=folder.id, new=False)
        return self.office.talk(Player(says("Well.")), choice)


@pytest.fixture
def clone(office, tmp_path):  # noqa: F811
    return Clone(office, tmp_path)


def told(*sessions):
    sources = tuple(Source(f"report:{s}", Sender("report", session=s)) for s in sessions)
    return msgspec.structs.replace(MessageAdded(user("hi")), sources=sources)


def spread(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("shelf", ["there", "here"])
def test_no_folder_is_removed_that_is_no_session(clone, tmp_path, shelf):
    """Whoever wrote the log: what it calls a session is a path, or none."""
    victim = tmp_path / "thesis"
    victim.mkdir()
    (victim / "events.jsonl").touch()
    (victim / "chapter").write_text("years of work")
    names = [str(victim), "../../../../thesis", "2026-11-x"]
    folder = clone.session(
        *(ChildStarted(name, "a", cleanup="delete") for name in names),
        told(*names),
        shelf=getattr(clone, shelf),
    )
    clone.goes_on(folder)
    assert spread(victim) == ["chapter", "events.jsonl"]
    conversation = folder.read()
    assert len(conversation.damaged) == 4
    assert conversation.standing.children == {}
    assert conversation.opening == "hi"


def test_a_child_is_neither_removed_nor_woken_nor_stopped(clone):
    mine = clone.here.talk()
    clone.here.put(mine, "wait")
    folder = clone.session(ChildStarted(mine.id, "a", cleanup="delete"), told(mine.id))
    clone.goes_on(folder)
    assert mine.read().turn == 1
    assert Inbox(mine.path).count() == 1
    assert wanted_stop(mine.path) is None


@pytest.mark.parametrize("sealed", [False, True])
def test_a_report_reaches_a_parent_only_from_a_session_that_was_begun_here(clone, sealed):
    mine = clone.here.talk()
    shelf = clone.here if sealed else clone.there
    folder = clone.session(MessageAdded(user("hi")), shelf=shelf, parent=mine.id, root=mine.id, depth=1)
    clone.goes_on(folder)
    assert (mine.read().turn > 1) == sealed


def test_nothing_is_written_beside_the_sessions(clone, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "events.jsonl").touch()
    asked = Source("x", Sender("agent", session=str(victim)))
    for shelf in (clone.here, clone.there):
        where = str(victim)
        message = msgspec.structs.replace(MessageAdded(user("hi")), sources=(asked,))
        clone.goes_on(clone.session(message, shelf=shelf, parent=where, root=where, depth=1))
    assert spread(victim) == ["events.jsonl"]


@pytest.mark.parametrize("sealed", [False, True])
def test_what_it_has_to_deliver_is_not_sent(clone, sealed):
    part = Outgoing(
        format=1,
        id="r.00001",
        reply="r",
        part=1,
        kind="final",
        address=Address("outbox", to="boss"),
        text="I resign.",
    )
    folder = clone.session(DeliveryDue(part), shelf=clone.here if sealed else clone.there)
    clone.goes_on(folder)
    sent = list((clone.office.ws.halo / "outbox").rglob("*.json"))
    assert bool(sent) == sealed
    assert bool(SessionFolder(clone.office.sessions, folder.id).read().standing.due) != sealed
