"""Messages from several processes at once, and those that come twice: one session, each message once."""

import subprocess
import sys

import msgspec
import pytest
from making import agent
from playing import says
from test_receiving import PEERS, Counter

from halo.sessions.find import session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.workspace.demands import read_demands
from halo.workspace.trust_file import record_trust

FILES = {
    ".halo/agents/a/agent.yaml": agent(tools=["grep", "file_write"]),
    ".halo/agents/a/AGENT.md": "You are a.\n",
    ".halo/settings.yaml": PEERS,
}

# Each waits until all are there, so that they come at the same moment.
SENDER = """
import os, sys, time
from halo.build.builder import Builder
from halo.sessions.desk import Desk
from halo.sessions.receiving import receive
from halo.sessions.routing.inbound import Inbound
from halo.sessions.sending import send
from halo.workspace.places import Places
workspace, home, templates, user, meeting, way, number = sys.argv[1:]
places = Places(workspace, home, templates, user)
desk = Desk(Builder(places), {}, home, time.time_ns)
open(os.path.join(meeting, f"ready-{number}"), "w").close()
while not os.path.exists(os.path.join(meeting, "go")):
    time.sleep(0.001)
if way == "send":
    send(desk, "agent:a:main", f"message {number}", interrupt="no")
else:
    receive(desk, "a", Inbound("outbox", peer="eve", text=f"message {number}"))
"""


@pytest.fixture
def office(make_workspace):
    return Counter(make_workspace(FILES).without_templates())


@pytest.mark.parametrize("way", ["send", "receive"])
def test_messages_that_come_at_once_for_a_new_key_begin_one_session(office, tmp_path, way):
    given = (*msgspec.structs.astuple(office.ws.places), str(tmp_path), way)
    running = [subprocess.Popen([sys.executable, "-c", SENDER, *given, str(n)]) for n in range(4)]
    while len([*tmp_path.glob("ready-*")]) < len(running):
        assert not any(process.poll() for process in running)
    (tmp_path / "go").touch()
    assert [process.wait(30) for process in running] == [0] * 4
    (found,) = session_ids(office.sessions)
    texts = {w.message.text for w in Inbox(SessionFolder(office.sessions, found).path).waiting()[0]}
    assert texts == {f"message {n}" for n in range(4)}


def test_a_command_that_a_channel_delivers_twice_begins_one_session(office):
    office.receive("Hello", authorised=True)
    office.work(says("Hi."))
    first, route = office.receive("/new Next", authorised=True, message_id="m-2")
    assert route.action == "rollover"
    again, _ = office.receive("/new Next", authorised=True, message_id="m-2")
    assert (again.folder.id, again.new) == (first.folder.id, False)
    office.work(says("Fresh."))
    later, _ = office.receive("/new Next", authorised=True, message_id="m-2")
    assert (later.folder.id, later.new) == (first.folder.id, False)
    assert len([*session_ids(office.sessions)]) == 2


def test_a_message_that_comes_once_more_behind_a_reset_is_taken_once(office):
    sent, _ = office.receive("Hello", authorised=True, message_id="m-1")
    office.work(says("Hi."))
    office.receive("/new Next", authorised=True)
    again, _ = office.receive("Hello", authorised=True, message_id="m-1")
    assert (again.folder.id, again.new) == (sent.folder.id, False)


def test_a_guest_may_only_read_where_the_owner_may_write(office):
    places = office.ws.places
    record_trust(places.home, places.workspace, read_demands(places.tree()).digests)
    for authorised in (True, False):
        office.receive("Write it down", peer=f"p{authorised}", authorised=authorised)
    office.work(says("1"), says("2"))
    offered = {
        frozenset(spec.name for spec in r.prefix.tools) & {"file_write"} for r in office.player.requests
    }
    assert offered == {frozenset({"file_write"}), frozenset()}


def test_an_answer_to_somebody_at_a_terminal_goes_to_no_channel(office):
    sent, _ = office.receive("Hello", authorised=True)
    office.work(says("Hi."))
    folder = SessionFolder(office.sessions, sent.folder.id)
    from halo.sessions.talk import typed

    Inbox(folder.path).put(typed("Just between us.", office.desk.now_ns()), office.desk.now_ns())
    office.work(says("Of course."))
    assert office.texts(sent)[-1] == "Of course."
    assert [m["text"] for m in office.outbox()] == ["Hi."]
    office.receive("And now?", authorised=True)
    office.work(says("Public."))
    assert [m["text"] for m in office.outbox()] == ["Hi.", "Public."]
