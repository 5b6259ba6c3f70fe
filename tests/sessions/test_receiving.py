"""Messages from channels: the session they reach, what their senders may do, and where the replies go."""

import asyncio
import json

import pytest
from making import agent
from playing import Player, says
from test_engine import Busy

from halo.errors import SessionKeyError, UnknownNameError
from halo.records.events import MessageAdded
from halo.records.session_events import Delivered
from halo.sessions.derived import read_header
from halo.sessions.engine.engine import Engine
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.receiving import receive
from halo.sessions.routing.inbound import Inbound

PEERS = "general:\n  session:\n    dm_scope: per-channel-peer\n"


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/a/agent.yaml": agent(tools=["grep", "file_write"]),
        ".halo/agents/a/AGENT.md": "You are a.\n",
        ".halo/settings.yaml": PEERS,
    }
    return Counter(make_workspace(files).without_templates())


class Counter(Busy):
    """Where messages come in by a channel, and replies go out into the outbox."""

    def receive(self, text, peer="u1", name="", **envelope):
        message_id = envelope.pop("message_id", "")
        inbound = Inbound("outbox", peer=peer, name=name, text=text, **envelope)
        return receive(self.desk, "a", inbound, message_id=message_id)

    def work(self, *replies):
        self.desk.adapter = lambda _artifact, _target: self.player
        self.player = Player(*replies)

        async def go():
            engine = Engine(self.desk, lambda _session, event: self.shown.append(event))
            for session_id in session_ids(self.sessions):
                engine.wake(session_id)
            await engine.settled()

        asyncio.run(go())

    def outbox(self):
        found = sorted((self.ws.halo / "outbox").rglob("*.json"))
        return [json.loads(path.read_text()) for path in found]

    def texts(self, sent):
        folder = SessionFolder(self.sessions, sent.folder.id)
        from test_delegation import json_of

        decoded = [json_of(e) for e in folder.read_events()]
        return [d.message.text for d in decoded if isinstance(d, MessageAdded)]

    def delivered(self, sent):
        from test_delegation import json_of

        events = SessionFolder(self.sessions, sent.folder.id).read_events()
        return [d for d in map(json_of, events) if isinstance(d, Delivered)]


def test_a_reply_goes_back_to_where_the_message_came_from(office):
    sent, route = office.receive("Hello", to="room-7", account="acc", thread="t1", name="Eve")
    assert route.action == "new"
    office.work(says("Good day."))
    (message,) = office.outbox()
    assert message["text"] == "Good day."
    assert message["address"] == {"channel": "outbox", "to": "room-7", "account": "acc", "thread": "t1"}
    (delivered,) = office.delivered(sent)
    assert (delivered.state, delivered.part, delivered.id) == ("sent", 1, message["id"])
    assert office.texts(sent) == ["(from Eve)\nHello", "Good day."]
    assert read_header(sent.folder).title == "Hello"  # who wrote it is no part of what it is about


def test_two_senders_never_share_a_session_where_they_are_kept_apart(office):
    """Complaint 25."""
    first, _ = office.receive("I am Eve", peer="eve")
    second, _ = office.receive("I am Bob", peer="Bob")
    third, route = office.receive("Eve again", peer="eve")
    assert first.folder.id == third.folder.id != second.folder.id
    assert route.action == "continue"


def test_a_message_that_a_channel_delivers_twice_is_taken_once(office):
    sent, _ = office.receive("Once", message_id="m-1")
    again, _ = office.receive("Once", message_id="m-1")
    assert (sent.new, again.new) == (True, False)
    office.work(says("Yes."))
    later, _ = office.receive("Once", message_id="m-1")
    assert not later.new
    assert len(office.outbox()) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"peer": "eve"}, {"peer": "bob"}),
        ({"group": "G1"}, {"group": "G2"}),
        ({"account": "a:b", "message_id": "c"}, {"account": "a", "message_id": "b:c"}),
        ({"peer": "a%3Ab"}, {"peer": "a:b"}),
    ],
)
def test_messages_of_two_chats_are_two_whatever_their_numbers(office, one, other):
    """Channels number messages in each chat."""
    office.ws.write({".halo/settings.yaml": "general: {session: {dm_scope: main}}\n"})
    for where, text in ((one, "First"), (other, "Second")):
        kind = {"chat_type": "group"} if "group" in where else {}
        assert office.receive(text, **{"message_id": "5", **kind, **where})[0].new


def test_each_person_is_answered_where_they_wrote(office):
    """They share a session: what both wrote becomes two turns, and each reads the own answer."""
    office.ws.write({".halo/settings.yaml": "general: {session: {dm_scope: main}}\n"})
    for text, peer in (("One", "bob"), ("Two", "mira"), ("Three", "mira"), ("Four", "bob")):
        office.receive(text, peer=peer)
    office.work(says("To bob."), says("To mira."), says("To bob again."))
    assert [(m["address"]["to"], m["text"]) for m in office.outbox()] == [
        ("bob", "To bob."),
        ("mira", "To mira."),
        ("bob", "To bob again."),
    ]


def test_a_stranger_may_only_read_and_use_no_commands(office):
    sent, route = office.receive("/new Write it down")
    assert route.trigger is None
    assert "may not reset" in route.warnings[0]
    office.work(says("I only read."))
    (request,) = office.player.requests
    assert "file_write" not in {spec.name for spec in request.prefix.tools}
    assert office.texts(sent)[0] == "/new Write it down"


def test_an_owner_begins_anew_and_what_was_chosen_goes_on(office):
    sent, _ = office.receive("Hello", authorised=True)
    office.work(says("Hi."))
    fresh, route = office.receive("/new Next", authorised=True)
    assert (route.action, route.reset.reason) == ("rollover", "/new")
    assert fresh.folder.id != sent.folder.id
    office.work(says("Fresh."))
    assert office.texts(fresh) == ["Next", "Fresh."]
    assert SessionFolder(office.sessions, sent.folder.id).read().standing.successor.to == fresh.folder.id
    assert [m["text"] for m in office.outbox()] == ["Hi.", "Fresh."]


def test_what_may_not_be_sent_is_recorded_and_stays_in_the_session(office):
    office.ws.write(
        {
            ".halo/settings.yaml": PEERS
            + "    send_policy:\n      rules: [{action: deny, match: {channel: outbox}}]\n"
        }
    )
    sent, _ = office.receive("Hello")
    office.work(says("Nobody hears this."))
    assert office.outbox() == []
    (denied,) = office.delivered(sent)
    assert (denied.state, denied.error) == ("denied", "rule 1 of send_policy says deny")
    assert office.texts(sent)[-1] == "Nobody hears this."


def test_a_channel_that_cannot_be_opened_ends_no_turn(office):
    office.ws.write(
        {
            ".halo/settings.yaml": PEERS
            + "  delivery:\n    channels:\n      outbox: {connect: {type: nosuch}}\n"
        }
    )
    sent, _ = office.receive("Hello")
    office.work(says("Said all the same."))
    (failed,) = office.delivered(sent)
    assert failed.state == "failed"
    assert office.texts(sent)[-1] == "Said all the same."
    assert any("not delivered" in n for n in office.notices)


@pytest.mark.parametrize("word", ["NO_REPLY", "no_reply", "REPLY_SKIP", "ANNOUNCE_SKIP"])
def test_a_silent_answer_is_not_delivered(office, word):
    office.receive("Hello")
    office.work(says(word))
    assert office.outbox() == []


def test_an_event_is_no_interaction_and_changes_no_way(office):
    sent, _ = office.receive("Hello", to="here")
    office.work(says("Hi."))
    before = SessionFolder(office.sessions, sent.folder.id).read().standing.interacted_at
    office.receive("tick", event="heartbeat", to="elsewhere")
    office.work(says("Tock."))
    standing = SessionFolder(office.sessions, sent.folder.id).read().standing
    assert standing.interacted_at == before
    assert [m["address"]["to"] for m in office.outbox()] == ["here", "here"]


def test_an_envelope_that_leads_nowhere_begins_nothing(office):
    with pytest.raises(SessionKeyError):
        office.receive("Hello", peer="")
    with pytest.raises(UnknownNameError):
        receive(office.desk, "nobody", Inbound("outbox", peer="u"))
    assert list(session_ids(office.sessions)) == []
