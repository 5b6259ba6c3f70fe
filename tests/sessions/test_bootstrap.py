"""The first run: no USER.md, so the agent is told to ask; it writes the file; the next turn knows the user."""

import json
import os

import pytest
from making import agent
from playing import Player, says

from halo.records.messages import Message, ToolCall
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.talk import run_talk
from halo.workspace.demands import read_demands
from halo.workspace.trust_file import record_trust

USER = "---\nuser_name: Ada\nai_name: Halo\n---\n\n- Write in English; short answers.\n"
FIRST_RUN = "## First run"


def calls(name, **arguments):
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),))


class Office:
    """A workspace as it is made, without USER.md; an agent that may write; turns with a played model."""

    def __init__(self, ws):
        self.ws = ws.write(
            {
                ".halo/agents/a/agent.yaml": agent(
                    name="Ada's", tools=["file_read", "file_write", "file_edit"]
                ),
                ".halo/agents/a/AGENT.md": "You are {{ai_name}}, and help {{user_name}}.\n",
            }
        )
        self.seconds = 0

    def trust(self):
        places = self.ws.places
        record_trust(places.home, places.workspace, read_demands(places.tree()).digests)
        return self

    def now_ns(self):
        self.seconds += 1
        return self.ws.now_ns() + self.seconds * 10**9

    def talk(self, *replies, access="full", new=False):
        """Run a turn; return what the model was asked, call by call."""
        player = Player(*replies)
        desk = Desk(self.ws.builder, {"PATH": os.environ["PATH"]}, str(self.ws.home / "cache"), self.now_ns)
        desk.adapter = lambda _artifact, _target: player
        sessions = str(self.ws.halo / "sessions")
        choice = choose(sessions, "a", "cli", home=str(self.ws.home), named=None, new=new, access=access)
        run_talk(desk, choice, "Go.", lambda _event: None, frozen=False)
        return player.requests

    @property
    def user(self):
        path = self.ws.halo / "USER.md"
        return path.read_text() if path.exists() else None


@pytest.fixture
def office(make_workspace):
    return Office(make_workspace({})).trust()


def result(request):
    return request.history[-1].content[0]


@pytest.mark.parametrize("access", ["full", "workspace"])
def test_the_agent_writes_the_user_and_the_next_turn_is_without_bootstrap(office, access):
    first, second = office.talk(
        calls("file_write", path=".halo/USER.md", content=USER), says("Hello Ada."), access=access
    )
    assert FIRST_RUN in first.prefix.system
    assert "## User Profile" not in first.prefix.system
    assert result(second).text == "made .halo/USER.md: 6 lines, 73 bytes"
    assert not result(second).is_error
    assert second.prefix == first.prefix  # within the turn nothing changes
    assert office.user == USER

    (next_one,) = office.talk(says("Hello again."), access=access)
    assert FIRST_RUN not in next_one.prefix.system
    assert "## User Profile\n\n- Write in English; short answers." in next_one.prefix.system
    assert "You are Halo, and help Ada." in next_one.prefix.system
    assert [message.text for message in next_one.history] == ["Go.", "", "", "Hello Ada.", "Go."]


def test_a_session_of_its_own_is_without_bootstrap_too(office):
    office.talk(calls("file_write", path=".halo/USER.md", content=USER), says("Hello."))
    (request,) = office.talk(says("Hello."), new=True)
    assert FIRST_RUN not in request.prefix.system


def test_who_may_only_read_cannot_and_bootstrap_stays(make_workspace):
    """Nobody trusted this workspace yet: the prompt names no tool that writes, and a call of one is refused."""
    office = Office(make_workspace({}))
    first, second = office.talk(calls("file_write", path=".halo/USER.md", content=USER), says("I cannot."))
    assert FIRST_RUN in first.prefix.system
    assert {"file_write", "file_edit"}.isdisjoint(spec.name for spec in first.prefix.tools)
    assert result(second).is_error
    assert office.user is None
    (third,) = office.talk(says("Hello."))
    assert FIRST_RUN in third.prefix.system


def test_a_blank_file_is_no_user(office):
    office.talk(calls("file_write", path=".halo/USER.md", content="\n"), says("Hello."))
    (request,) = office.talk(says("Hello."))
    assert FIRST_RUN in request.prefix.system


def test_an_agent_cannot_give_itself_more_on_the_way(office):
    """At access workspace layers can be written, and what decides about tools and access cannot."""
    settings = office.ws.halo / "settings.yaml"
    settings.write_text("general: {tools: {access: workspace}}\n")
    yaml = office.ws.halo / "agents" / "a" / "agent.yaml"
    before = yaml.read_text()
    requests = office.talk(
        calls("file_write", path=".halo/settings.yaml", content="general: {tools: {access: full}}\n"),
        calls("file_write", path=".halo/agents/a/agent.yaml", content="tools: [shell_exec]\n"),
        calls("file_edit", path=".halo/agents/a/agent.yaml", old_string="file_read", new_string="shell_exec"),
        calls("file_write", path=".halo/agents/a/AGENT.md", content="You are bold.\n"),
        says("Done."),
    )
    said = [result(request) for request in requests[1:]]
    assert [answer.is_error for answer in said] == [True, True, True, False]
    assert all("decides what agents may do" in answer.text for answer in said[:3])
    assert settings.read_text() == "general: {tools: {access: workspace}}\n"
    assert yaml.read_text() == before
    (request,) = office.talk(says("Hello."))
    assert "You are bold." in request.prefix.system
    assert "shell_exec" not in {spec.name for spec in request.prefix.tools}
