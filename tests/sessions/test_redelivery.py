"""What was said for a channel arrives there, also when the process that said it died, or the channel was down."""

import asyncio
import json

import pytest
from making import agent
from playing import says
from test_delegation import json_of
from test_receiving import PEERS, Counter
from test_webhooks import Server

from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.records.session_events import Delivered, DeliveryDue
from halo.sessions.derived import read_header, write_derived
from halo.sessions.engine.redelivering import send_again
from halo.sessions.engine.unfinished import unfinished_sessions
from halo.sessions.folder import SessionFolder

ELSEWHERE = "  delivery: {channels: {outbox: {connect: {type: outbox, params: {folder: /elsewhere}}}}}\n"
DENIED = "    send_policy:\n      rules: [{action: deny, match: {channel: outbox}}]\n"


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/a/agent.yaml": agent(tools=["grep"]),
        ".halo/agents/a/AGENT.md": "You are a.\n",
        ".halo/settings.yaml": PEERS,
    }
    return Counter(make_workspace(files).without_templates())


def part(number, reply="0", channel="outbox"):
    name = f"{reply}.{number:05}"
    return Outgoing(FORMAT, name, reply, number, "block", Address(channel, "room"), f"Part {number}.")


def left(office, parts, known=(), channel="outbox"):
    """A session whose process died: parts were to be sent, of some of which it is known what became of them."""
    sent, _ = office.receive("Hello", to="room")
    office.work(says("NO_REPLY"))
    folder = SessionFolder(office.sessions, sent.folder.id)
    with folder.open(office.desk.now_ns) as session:
        for number in range(1, parts + 1):
            session.append(DeliveryDue(part(number, channel=channel)))
        for number, state in known:
            session.append(Delivered(channel, part(number).id, number, state))
        write_derived(session)
    return folder


def outcomes(folder):
    decoded = [json_of(e) for e in folder.read_events()]
    return [(d.part, d.state) for d in decoded if isinstance(d, Delivered)]


class TestOfAProcessThatDied:
    @pytest.mark.parametrize("arrived", range(4))
    def test_the_rest_is_sent_when_the_session_is_opened_next_and_nothing_twice(self, office, arrived):
        folder = left(office, 3, [(n, "sent") for n in range(1, arrived + 1)])
        assert read_header(folder).due == 3 - arrived
        office.work()
        assert [m["text"] for m in office.outbox()] == [f"Part {n}." for n in range(arrived + 1, 4)]
        assert outcomes(folder) == [(1, "sent"), (2, "sent"), (3, "sent")]
        office.work()
        assert len(office.outbox()) == 3 - arrived
        assert read_header(folder).due == 0

    def test_a_part_that_had_arrived_is_known_by_its_id(self, office):
        """It died between the sending and the record."""
        folder = left(office, 2)
        office.work()
        with folder.open(office.desk.now_ns) as session:
            session.append(DeliveryDue(part(2)))
        office.work()
        assert [m["text"] for m in office.outbox()] == ["Part 1.", "Part 2."]

    def test_what_was_broken_off_is_still_due(self, office):
        left(office, 2, [(1, "sent"), (2, "broken_off")])
        office.work()
        assert [m["text"] for m in office.outbox()] == ["Part 2."]

    def test_it_goes_out_before_the_next_answer(self, office):
        left(office, 2)
        office.receive("And now?", to="room")
        office.work(says("Now this."))
        assert [m["text"] for m in office.outbox()] == ["Part 1.", "Part 2.", "Now this."]

    def test_workers_look_for_it(self, office):
        folder, home = left(office, 1), office.desk.builder.places.home
        assert [*unfinished_sessions(office.sessions, home)] == [folder.id]
        with folder.open(office.desk.now_ns):  # somebody is about to send it
            assert [*unfinished_sessions(office.sessions, home)] == []
        office.work()
        assert [*unfinished_sessions(office.sessions, home)] == []


class TestWhatAChannelDidNotTake:
    def test_is_kept_and_not_tried_again_by_itself(self, office):
        folder = left(office, 3, [(1, "sent"), (2, "failed"), (3, "unsent")])
        office.work()
        assert office.outbox() == []
        header = read_header(folder)
        assert (header.due, header.undelivered) == (0, 2)

    def test_is_sent_in_order_when_somebody_says_so(self, office):
        folder = left(office, 3, [(1, "sent"), (2, "failed"), (3, "unsent")])
        assert again(office, folder) == 2
        assert [m["text"] for m in office.outbox()] == ["Part 2.", "Part 3."]
        assert outcomes(folder)[3:] == [(2, "sent"), (3, "sent")]
        assert again(office, folder) == 0

    def test_a_part_that_fails_again_holds_up_those_behind_it_and_all_are_kept(self, office):
        with Server(500, 400, 204) as server:
            office.ws.write({"secrets:settings.yaml": "general:\n" + hook(server.url)})
            folder = left(office, 3, [(n, "failed") for n in (1, 2, 3)], channel="ops")
            assert again(office, folder) == 0
            assert outcomes(folder)[3:] == [(1, "failed"), (2, "unsent"), (3, "unsent")]
            assert again(office, folder) == 3
        assert [json.loads(body)["text"] for _, body in server.requests[2:]] == [
            "Part 1.",
            "Part 2.",
            "Part 3.",
        ]

    @pytest.mark.parametrize("settings", [PEERS + DENIED, PEERS + ELSEWHERE])
    def test_what_may_not_go_out_now_is_kept_too(self, office, settings):
        folder = left(office, 1)
        office.ws.write({".halo/settings.yaml": settings})
        office.work()
        assert office.outbox() == []
        assert outcomes(folder) == [(1, "unsent")]
        office.ws.write({".halo/settings.yaml": PEERS})
        assert again(office, folder) == 1


def hook(url):
    params = f"{{url: '{url}', secret: s3cret, private: 'true'}}"
    return f"  delivery:\n    channels:\n      ops: {{connect: {{type: webhook, params: {params}}}}}\n"


def again(office, folder):
    async def go():
        with folder.open(office.desk.now_ns) as session:
            sent = await send_again(office.desk, session, office.shown.append)
            write_derived(session)
            return sent

    return asyncio.run(go())
