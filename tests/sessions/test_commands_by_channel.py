"""Commands that people write on a channel: done at once, answered there, by those who may."""

import asyncio

import pytest
from making import agent
from playing import says
from test_receiving import PEERS, Counter

from halo.errors import SessionKeyError
from halo.sessions.commands.by_channel import take_in
from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.routing.inbound import Inbound


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/a/agent.yaml": agent(tools=["grep"]),
        ".halo/agents/a/AGENT.md": "You are a.\n",
        ".halo/settings.yaml": PEERS,
    }
    return Hall(make_workspace(files).without_templates())


class Hall(Counter):
    def write(self, text, *, peer="u1", owner=True, message_id="", **envelope):
        inbound = Inbound("outbox", peer=peer, text=text, authorised=owner, **envelope)
        taking = take_in(self.desk, "a", inbound, self.shown.append, message_id=message_id)
        return asyncio.run(taking)

    def heard(self):
        return [message["text"] for message in self.outbox()]

    def only(self):
        (found,) = session_ids(self.sessions)
        return SessionFolder(self.sessions, found)


def test_a_command_is_answered_on_the_channel_and_reaches_no_model(office):
    office.write("Hello", to="room-7")
    office.work(says("Hi."))
    taken = office.write("/status", to="room-7")
    assert taken.sent is None
    assert office.heard() == ["Hi.", *taken.told]
    assert "turn" in taken.told[0]
    assert office.outbox()[-1]["address"]["to"] == "room-7"
    assert not Inbox(office.only().path).count()
    assert "/status" not in office.only().read().messages[-1].text


def test_who_may_not_use_a_command_is_told_and_no_model_sees_it(office):
    taken = office.write("/send off", owner=False)
    assert taken.sent is None
    assert "is for the owner" in office.heard()[0]
    assert [*session_ids(office.sessions)] == []


def test_what_is_set_is_set_for_the_session_of_the_writer(office):
    office.write("Hello")
    office.write("Hello", peer="u2")
    office.work(says("1"), says("2"))
    office.write("/send off")
    office.write("And?")
    office.write("And?", peer="u2")
    office.work(says("3"), says("4"))
    settings = [
        SessionFolder(office.sessions, s).read().standing.settings for s in session_ids(office.sessions)
    ]
    assert sorted(s.get("send", "") for s in settings) == ["", "deny"]
    assert len([text for text in office.heard() if text in ("3", "4")]) == 1


def test_a_new_session_is_told_and_greets(office):
    office.write("Hello", to="here")
    office.work(says("Hi."))
    taken = office.write("/new", to="there", message_id="m-1")
    assert taken.sent.begun
    assert "a new session begins" in office.heard()[-1]
    office.work(says("Good day."))
    assert office.outbox()[-1]["text"] == "Good day."
    assert office.outbox()[-1]["address"]["to"] == "there"
    again = office.write("/new", to="there", message_id="m-1")
    assert (again.sent.new, again.told) == (False, ())
    assert len([*session_ids(office.sessions)]) == 2


def test_the_rest_behind_a_new_session_and_its_model_is_the_message(office):
    office.ws.write(
        {
            ".halo/settings.yaml": "general:\n  models:\n    aliases:\n"
            "      fast: {provider: openai, id: quick}\n  session: {dm_scope: per-channel-peer}\n"
        }
    )
    taken = office.write("/new fast What is the tide?")
    office.work(says("Low."))
    assert office.texts(taken.sent)[0] == "What is the tide?"
    assert office.only().read().standing.settings["model"] == "=fast"


def test_a_session_that_a_rule_ended_is_told_to_whoever_writes_next(office):
    office.ws.write({".halo/settings.yaml": f"{PEERS}    reset: {{mode: idle, idle_minutes: 10}}\n"})
    office.write("Hello")
    office.work(says("Hi."))
    office.desk.now_ns.ns += 3_600 * 10**9
    taken = office.write("Still there?")
    assert "idle reset" in taken.told[0]
    assert office.heard()[-1] == taken.told[0]


def test_a_command_that_cannot_be_done_now_says_why(office):
    office.write("Hello")
    office.work(says("Hi."))
    with office.only().open(office.desk.now_ns):
        taken = office.write("/send off")
    assert "in use" in taken.told[0]
    assert office.heard()[-1] == taken.told[0]


def test_an_envelope_that_leads_nowhere_is_no_command(office):
    with pytest.raises(SessionKeyError):
        office.write("/status", peer="")
