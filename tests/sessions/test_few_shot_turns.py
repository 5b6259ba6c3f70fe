"""Few-shots in turns: shown to the model each time, and no part of the session."""

import pytest
from making import agent
from playing import Player, calls, says

from halo.records.messages import ToolResult
from halo.sessions.choice import choose
from halo.sessions.desk import Desk
from halo.sessions.talk import run_talk

SHOTS = """\
- user: u
- assistant: I look.
  calls: [{name: grep, arguments: {pattern: x}}]
- results: [r]
- assistant: a
"""


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            ".halo/agents/a/agent.yaml": agent(tools=["grep"]),
            ".halo/agents/a/AGENT.md": "You are a.\n",
            ".halo/agents/a/fewshots/x.yaml": SHOTS,
        }
    ).without_templates()


def turn(ws, *replies):
    """Say `Go.` and return the requests, and the session's history afterwards."""
    player = Player(*replies)
    desk = Desk(ws.builder, {}, str(ws.home / "cache"), ws.now_ns)
    desk.adapter = lambda *_: player
    sessions = str(ws.halo / "sessions")
    choice = choose(sessions, "a", "cli", home=str(ws.home), named=None, new=False)
    run_talk(desk, choice, "Go.", lambda _: None, frozen=False)
    choice = choose(sessions, "a", "cli", home=str(ws.home), named=None, new=False)
    return player.requests, choice.folder.read().messages


def test_they_stand_before_the_session_in_every_request_and_not_in_its_log(ws):
    for number in (1, 2):
        requests, history = turn(ws, says("Yes."))
        shown = requests[0].messages[:4]
        assert [m.text for m in shown] == ["u", "I look.", "", "a"]
        assert requests[0].messages[4:] == tuple(history[:-1])
        assert [m.text for m in history] == ["Go.", "Yes."] * number


def test_a_call_never_has_the_id_of_one_of_theirs(ws):
    """A small model repeats the ids that it sees; its result would be lost among the examples'."""
    requests, history = turn(ws, calls("fewshot-1-1"), says("Done."))
    (call,) = history[1].calls
    assert call.id == "fewshot-1-1_2"
    answers = [b.call_id for m in requests[-1].messages for b in m.content if isinstance(b, ToolResult)]
    assert answers == ["fewshot-1-1", "fewshot-1-1_2"]


def test_an_edit_of_them_counts_from_the_next_turn(ws):
    turn(ws, says("Yes."))
    ws.write({".halo/agents/a/fewshots/x.yaml": "- user: other\n- assistant: b\n"})
    requests, _ = turn(ws, says("Yes."))
    assert [m.text for m in requests[0].messages] == ["other", "b", "Go.", "Yes.", "Go."]
