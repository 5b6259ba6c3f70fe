"""What the sessions of one run may use together, in one process after the other, and in several at once."""

import pytest
from making import agent
from playing import says
from test_delegation import start
from test_engine_races import Family

from halo.sessions.engine.ledgers import Ledgers

FILES = {
    ".halo/agents/lead/agent.yaml": agent(
        tools=["grep"], team=["worker"], budgets={"run": {"tokens": 1000, "seconds": 100}}
    ),
    ".halo/agents/lead/AGENT.md": "You lead.\n",
    ".halo/agents/worker/agent.yaml": agent(tools=["grep"]),
    ".halo/agents/worker/AGENT.md": "You work.\n",
}


@pytest.fixture
def office(make_workspace):
    return Family(make_workspace(FILES).without_templates())


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def left(office, ledgers, folder, name):
    with folder.open(office.desk.now_ns) as session:
        artifact = office.ws.builder.store.load(session.conversation.started.artifact)
        with ledgers.open(session):
            return ledgers.of_turn(session, artifact.runtime).left()[f"run.{name}"]


def test_the_time_between_turns_is_no_time_of_the_run(office):
    """A worker lives for weeks; a session in it costs time only while it runs."""
    office.run_team(says("Hello."))
    clock = Clock()
    ledgers = Ledgers(office.desk, clock)
    before = left(office, ledgers, office.folder, "seconds")
    clock.seconds += 10_000
    assert left(office, ledgers, office.folder, "seconds") == before > 90


def test_what_children_use_in_another_process_counts_when_the_next_turn_begins(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
    parent, child = office.folder, office.at(office.child().id)
    ledgers = Ledgers(office.desk)
    with parent.open(office.desk.now_ns) as session:
        artifact = office.ws.builder.store.load(session.conversation.started.artifact)
        with ledgers.open(session):
            before = ledgers.of_turn(session, artifact.runtime).left()["run.tokens"]
            office.put_for(child, "More.")
            office.wake_all(child, worker=[says("Here.")])  # with ledgers of its own
            after = ledgers.of_turn(session, artifact.runtime).left()["run.tokens"]
    assert before - after == 5
    assert left(office, Ledgers(office.desk), parent, "tokens") == after


def test_what_is_used_here_is_counted_once(office):
    office.run_team(start(), says("ok"), says("noted"), worker=[says("Ready.")])
    # Three calls of the lead and one of the worker, of 5 tokens each.
    assert left(office, Ledgers(office.desk), office.folder, "tokens") == 1000 - 4 * 5


def test_what_a_deleted_child_has_used_is_used(office):
    office.run_team(start(cleanup="delete"), says("ok"), says("noted"), worker=[says("Ready.")])
    assert office.children() == []
    assert left(office, Ledgers(office.desk), office.folder, "tokens") == 1000 - 4 * 5
