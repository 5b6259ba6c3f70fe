"""Processes that run sessions are killed again and again; what they acknowledged is there, once, and all goes on.

`tests/crashing.py` does it, and says by itself how to play a round again that failed.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from making import REPOSITORY, agent
from playing import says
from test_delegation import LEAD, Script, Team, cut, start

from halo.files.locks import hold
from halo.records.events import MessageAdded
from halo.records.incoming import Sender, Source
from halo.records.messages import user
from halo.records.session_events import SessionChanged
from halo.records.stops import FORMAT as STOP_FORMAT
from halo.records.stops import Stop
from halo.sessions.delegation.answers import outcome_of
from halo.sessions.engine.engine import Engine
from halo.sessions.engine.unfinished import unfinished_sessions
from halo.sessions.engine.worker import Worker
from halo.sessions.folder import LOCK, SessionFolder
from halo.sessions.inbox.control import request_stop, wanted_stop

TESTS = REPOSITORY / "tests"
SOAK = "HALO_SOAK" in os.environ
CI = "CI" in os.environ
KILLS = 2_500 if SOAK else 55 if CI else 20  # of each of two harnesses at once
SEEDS = (os.urandom(4).hex(), os.urandom(4).hex()) if SOAK else ("a", "b")

# What has happened often enough in so many kills to say that it was tried.
TRIED = (
    "answer.taken",
    "calls interrupted",
    "child.started",
    "context.shortened",
    "ended interrupted",
    "memory.flushed",
    "report.sent",
    "sessions deleted",
    "tool.result",
    "torn lines",
)


@pytest.mark.timeout(7_200 if SOAK else 300)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_nothing_is_lost_or_done_twice_whenever_processes_are_killed(tmp_path):
    """Complaints 28, 29, 31, 32, 37: killed in every phase, and the next process goes on by itself."""
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(TESTS / "crashing.py"), "--kills", str(KILLS), "--seed"]
    running = [
        subprocess.Popen(
            [*command, seed], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for seed in SEEDS
    ]
    results = [(*process.communicate(), process.returncode) for process in running]
    assert [code for _, _, code in results] == [0] * len(SEEDS), "\n".join(err for _, err, _ in results)
    seen: dict[str, int] = {}
    for out, _, _ in results:
        first, _, counts = out.partition("\n")
        assert int(first.split()[0]) >= KILLS
        for name, count in json.loads(counts).items():
            seen[name] = seen.get(name, 0) + count
    assert all(seen.get(name) for name in TRIED) or not (CI or SOAK), seen


# What the harness has found, each by itself.


@pytest.fixture
def office(make_workspace):
    files = {
        ".halo/agents/lead/agent.yaml": agent(**{**LEAD, "budgets": {}}),
        ".halo/agents/worker/agent.yaml": agent(name="Worker", tools=["grep"], team=["helper"]),
        ".halo/agents/helper/agent.yaml": agent(name="Helper", tools=["grep"]),
    }
    return Crew(make_workspace(files).without_templates())


class Crew(Team):
    """A team whose sessions a worker takes up."""

    def drain(self, **players):
        self.players = {"lead": Script(), **{name: Script(*replies) for name, replies in players.items()}}
        self.desk.adapter = lambda _artifact, target: self.players[target.agent]
        told = []

        async def go():
            engine = Engine(self.desk, lambda _session, event: self.shown.append(event))
            await Worker(engine, self.desk.builder.places.home, told.append, time.monotonic).drain()

        asyncio.run(go())
        return told

    def at(self, session_id):
        return SessionFolder(self.sessions, session_id)


def test_a_worker_ends_what_a_process_that_died_left_behind(office):
    """Nothing waits in an inbox: the child took its task, and its process died in the middle of it."""
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    cut(office.at(office.child().id), "turn.started", after=2)
    cut(office.folder, "turn.ended", after=1)
    assert office.drain(lead=[says("I see.")]) == []
    assert "Status: interrupted" in office.reports()[0]
    assert office.said()[-1] == "I see."
    assert list(unfinished_sessions(office.sessions, office.ws.places.home)) == []


def test_a_run_in_which_somebody_is_at_work_is_left_to_them(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.child().id
    cut(office.at(child), "report.sent")
    cut(office.folder, "turn.ended")
    assert set(unfinished_sessions(office.sessions, office.ws.places.home)) == {child, office.folder.id}
    assert list(unfinished_sessions(office.sessions, office.ws.places.home, before=time.time() - 10)) == []
    with hold(os.path.join(office.folder.path, LOCK), what="the session"):
        assert list(unfinished_sessions(office.sessions, office.ws.places.home)) == []


def test_what_a_clone_brought_along_unfinished_is_left_alone_without_a_word(office, tmp_path):
    office.run_team(says("ok"))
    cut(office.folder, "turn.ended")
    assert list(unfinished_sessions(office.sessions, str(tmp_path / "another home"))) == []


def test_stopping_passes_over_a_child_that_was_never_begun(office):
    """Its parent died while the first line of its log was written."""
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.at(office.child().id)
    with open(child.events, "r+b") as file:
        file.truncate(100)
    request_stop(office.folder.path, Stop(STOP_FORMAT, "", "the owner"))
    assert office.drain() == []
    assert office.folder.read().standing.stopped == "the owner"
    assert wanted_stop(child.path) is None
    assert not any("ended with an error" in notice for notice in office.notices)


def test_a_message_that_a_stop_put_into_the_history_answers_for_no_earlier_turn(office):
    """Else the report of that turn would count as heard, although nobody got to see it."""
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.at(office.child().id)
    with child.open(office.desk.now_ns) as session:
        source = Source("waits", Sender("agent", session=office.folder.id, agent="lead"))
        session.append(MessageAdded(user("Where?"), sources=(source,)))
        session.append(SessionChanged("stopped", "the owner", "the owner"))
    assert outcome_of(child, "waits")[:2] == (True, "stopped")
    assert outcome_of(child, "waits").turn == 0


def test_a_session_that_was_deleted_before_it_was_woken_is_no_error(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("In pkg.")])
    child = office.at(office.child().id)
    shutil.rmtree(child.path)

    async def go():
        engine = Engine(office.desk, lambda _session, event: office.shown.append(event))
        engine.wake(child.id)
        await engine.settled()
        return engine.failures

    assert asyncio.run(go()) == {}
    assert not any("ended with an error" in notice for notice in office.notices)
    assert not os.path.exists(child.path)
