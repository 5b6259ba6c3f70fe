"""Two sessions that write to each other: how often, who hears of it on a channel, and with which rights."""

import asyncio
import json

import pytest
from making import agent
from playing import says
from test_delegation import Script, Team, call, cut, json_of, query, start

from halo.errors import ProviderError
from halo.records.events import MessageAdded
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.messages import Message, ToolCall
from halo.records.session_events import ReportSent
from halo.sessions.engine.engine import Engine
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.receiving import receive
from halo.sessions.routing.inbound import Inbound
from halo.workspace.demands import read_demands
from halo.workspace.trust_file import record_trust

SETTINGS = "general:\n  session:\n    dm_scope: per-channel-peer\n    delegation: {visibility: workspace%s}\n"


@pytest.fixture
def pair(make_workspace):
    files = {
        ".halo/agents/ann/agent.yaml": agent(name="Ann", tools=["grep", "file_write"], team=["bob"]),
        ".halo/agents/ann/AGENT.md": "You are Ann.\n",
        ".halo/agents/bob/agent.yaml": agent(name="Bob", tools=["grep"], team=["ann"]),
        ".halo/agents/bob/AGENT.md": "You are Bob.\n",
        ".halo/settings.yaml": SETTINGS % "",
    }
    return Pair(make_workspace(files).without_templates())


class Pair(Team):
    """Ann and Bob, whom people reach by a channel, each in a room of its own."""

    def __init__(self, ws):
        super().__init__(ws)
        record_trust(ws.places.home, ws.places.workspace, read_demands(ws.places.tree()).digests)
        self.players = {"ann": Script(says("Hello.")), "bob": Script(says("Hello."))}
        self.ann, self.bob = (self.receive("Hi", to=name) for name in ("ann", "bob"))
        self.work(self.ann, self.bob)

    def receive(self, text, to, *, peer="owner", authorised=True):
        inbound = Inbound("outbox", peer=peer, to=f"room of {to}", text=text, authorised=authorised)
        sent, _ = receive(self.desk, to, inbound)
        return SessionFolder(self.sessions, sent.folder.id)

    def work(self, *folders, **players):
        self.players.update({name: Script(*replies) for name, replies in players.items()})
        self.desk.adapter = lambda _artifact, target: self.players[target.agent]

        async def go():
            engine = Engine(self.desk, lambda _session, event: self.shown.append(event))
            for folder in folders:
                engine.wake(folder.id)
            await engine.settled()

        asyncio.run(go())

    def ask(self, *after, ann=(), bob=()):
        """Let Ann ask Bob without waiting, then say `after`."""
        self.receive("Ask Bob.", "ann")
        self.work(self.ann, ann=[query(self.bob.id, wait_seconds=0), says("I asked."), *ann], bob=bob)

    def texts(self, folder):
        return [d.message.text for d in map(json_of, folder.read_events()) if isinstance(d, MessageAdded)]

    def answers(self, folder):
        """The rounds of what came from the other session."""
        messages = [d for d in map(json_of, folder.read_events()) if isinstance(d, MessageAdded)]
        return [s.rounds for d in messages for s in d.sources if s.sender.kind == "agent"]

    def outbox(self):
        found = [json.loads(path.read_text()) for path in sorted((self.ws.halo / "outbox").rglob("*.json"))]
        return [(message["address"]["to"].removeprefix("room of "), message["text"]) for message in found]


HELLOS = [("ann", "Hello."), ("bob", "Hello.")]


def test_two_sessions_answer_each_other_within_bounds_and_the_channel_is_told(pair):
    ann = [says("ann 2"), says("ann 4"), says("ann 6"), says("never")]
    bob = [says("bob 1"), says("bob 3"), says("bob 5"), says("Ann asked me."), says("never")]
    pair.ask(ann=ann, bob=bob)
    assert pair.answers(pair.bob) == [0, 2, 4]
    assert pair.answers(pair.ann) == [1, 3, 5]
    assert pair.texts(pair.bob)[-1] == "Ann asked me."
    announced = pair.texts(pair.bob)[-2]
    assert "The request was:\n" in announced
    assert "Where?" in announced
    assert "Your first answer was:\nbob 1\n" in announced
    assert "The last answer was:\nann 6\n" in announced
    assert sorted(pair.outbox()) == sorted([*HELLOS, ("ann", "I asked."), ("bob", "Ann asked me.")])


@pytest.mark.parametrize(
    ("ann", "bob", "answers", "latest"),
    [
        ([], ["REPLY_SKIP"], 0, "REPLY_SKIP"),
        (["REPLY_SKIP"], ["bob 1"], 1, "bob 1"),
        (["ann 2"], ["bob 1", "REPLY_SKIP"], 2, "REPLY_SKIP"),
    ],
)
def test_the_skip_word_ends_an_exchange_and_is_no_answer(pair, ann, bob, answers, latest):
    pair.ask(ann=map(says, ann), bob=[*map(says, bob), says("Told.")])
    assert len([r for f in (pair.ann, pair.bob) for r in pair.answers(f) if r]) == answers
    assert f"The last answer was:\n{latest}\n" in pair.texts(pair.bob)[-2]
    assert pair.outbox()[-1] == ("bob", "Told.")


def test_who_was_asked_may_tell_its_channel_nothing(pair):
    pair.ask(ann=[says("REPLY_SKIP")], bob=[says("bob 1"), says("ANNOUNCE_SKIP")])
    assert sorted(pair.outbox()) == sorted([*HELLOS, ("ann", "I asked.")])


def test_without_ping_pong_the_channel_is_told_all_the_same(pair):
    pair.ws.write({".halo/settings.yaml": SETTINGS % ", ping_pong: 0"})
    pair.ask(bob=[says("bob 1"), says("Told.")])
    assert pair.answers(pair.ann) == []
    assert pair.outbox()[-1] == ("bob", "Told.")


def test_an_answer_is_sent_although_the_process_died_before(pair):
    pair.ask(ann=[says("REPLY_SKIP")], bob=[says("bob 1"), says("Told.")])
    cut(pair.bob, "report.sent")
    cut(pair.ann, "report.sent")
    ann = Inbox(pair.ann.path)
    assert not ann.count()
    # Ann's log is cut where Bob's answer came, as if it had never been put.
    log = pair.ann.events
    with open(log, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    took = next(n for n, line in enumerate(lines) if b'"answer:' in line)
    with open(log, "wb") as file:
        file.write(b"".join(lines[: took - 1]))
    pair.work(pair.bob, ann=[says("I see.")], bob=[says("bob 3"), says("Told.")])
    assert pair.answers(pair.ann)[0] == 1
    assert "I see." in pair.texts(pair.ann)


def test_a_turn_that_failed_is_an_answer_too(pair):
    pair.ask(ann=[says("REPLY_SKIP")], bob=[ProviderError("no such model", kind="request"), says("Told.")])
    assert "[No answer: failed: no such model]" in pair.texts(pair.ann)[-2]


def test_an_exchange_that_a_message_broke_into_is_answered_with_the_turn_behind_it(pair):
    async def slowly(_request):
        Inbox(pair.bob.path).put(
            Incoming(FORMAT, "m", "", "What now?", Sender("user", owner=True), "hard"), pair.desk.now_ns()
        )
        await asyncio.sleep(30)

    pair.ask(ann=[says("REPLY_SKIP")], bob=[slowly, says("bob 1"), says("Told.")])
    assert [text for text in pair.texts(pair.ann) if "bob 1" in text]
    assert pair.answers(pair.ann) == [1]


def test_several_messages_of_one_session_get_one_answer(pair):
    asked = Message(
        "assistant",
        tuple(
            ToolCall(f"c{n}", "query_session", json.dumps(
                {"session_id": pair.bob.id, "message": f"Question {n}", "wait_seconds": 0}))
            for n in range(3)
        ),
    )  # fmt: skip
    pair.receive("Ask Bob.", "ann")
    with pair.bob.open(pair.desk.now_ns):  # so that all of them wait
        pair.work(pair.ann, ann=[asked, says("I asked.")])
    pair.work(pair.bob, ann=[says("REPLY_SKIP")], bob=[says("bob 1"), says("Told.")])
    assert pair.answers(pair.ann) == [1]
    sent = [d for d in map(json_of, pair.bob.read_events()) if isinstance(d, ReportSent)]
    assert len({d.id for d in sent}) == len(sent)


def test_what_a_guest_brought_about_comes_back_with_the_rights_of_a_guest(pair):
    """A child that the owner started may do all; a guest's question to it may not come back as the owner's."""
    pair.receive("Begin.", "ann")
    pair.work(pair.ann, ann=[start("bob"), says("ok"), says("noted")], bob=[says("Ready.")])
    child = pair.child("bob").id
    guest = Incoming(FORMAT, "g", "", "Ask it.", Sender("user", id="eve", name="Eve", access="readonly"))
    Inbox(pair.ann.path).put(guest, pair.desk.now_ns())
    pair.work(
        pair.ann,
        ann=[query(child, wait_seconds=0), says("asked"), says("And?")],
        bob=[says("Write the file!")],
    )
    report = pair.texts(pair.ann)[-2]
    assert "Write the file!" in report
    request = pair.players["ann"].requests[-1]
    assert "file_write" not in {spec.name for spec in request.prefix.tools}


def test_an_answer_to_another_session_is_no_report_to_the_parent(pair):
    """A child that is asked by somebody else still owes its parent a report."""
    pair.receive("Begin.", "ann")

    async def asked_meanwhile(_request):
        message = Incoming(FORMAT, "q", "", "And you?", Sender("agent", session=pair.bob.id, agent="bob"))
        child = pair.child("bob")
        Inbox(SessionFolder(pair.sessions, child.id).path).put(message, pair.desk.now_ns())
        return says("Done.")

    pair.work(
        pair.ann,
        ann=[start("bob"), says("ok"), says("noted")],
        bob=[asked_meanwhile, says("Both."), says("x")],
    )
    assert [t for t in pair.texts(pair.ann) if t.startswith("[Report") and "Both." in t]


def test_call_is_a_tool_of_both(pair):
    pair.receive("List.", "bob")
    pair.work(pair.bob, bob=[call("session_list"), says("ok")])
    assert pair.texts(pair.bob)[-1] == "ok"
