"""Attempts that failed after tokens had been counted stand in the log, and the session pays for them."""

import pytest
from making import agent
from playing import Player, says
from test_talk import Office

from halo.errors import ProviderError
from halo.models.adapter import Lost, Retrying
from halo.records.events import TurnEnded, UsageLost, UsageReported
from halo.records.usage import Usage
from halo.runner.budgets import Spent
from halo.sessions.derived import read_header
from halo.sessions.spending import spent_of

LOST = Usage(uncached=80, read=20)
USED = Usage(uncached=3, output=2)
MODELS = """\
name: O
models:
  m:
    as_of: 2026-01-02
    prices:
      - {from: 2020-01-01, currency: USD, input: 1000000, output: 0, cache_read: 0}
"""


class Failing(Player):
    """The first attempt of each call fails, after tokens were counted."""

    async def stream(self, request):
        yield Lost(LOST, "played-1")
        yield Retrying("busy", 0.0, 1)
        async for event in super().stream(request):
            yield event


@pytest.fixture
def office(make_workspace):
    budgets = {"run": {"tokens": 200}}
    files = {
        ".halo/agents/a/agent.yaml": agent(model={"provider": "openai", "id": "m"}, budgets=budgets),
        ".halo/agents/a/AGENT.md": "You are a.\n",
        ".halo/models/openai.yaml": MODELS,
    }
    return Office(make_workspace(files).without_templates())


def test_the_log_has_them_beside_the_call_and_the_turn_came_to_both(office):
    reply = office.talk(Failing(says("Hello.")))
    assert reply.usage == LOST + USED
    kinds = [type(data) for _, data in office.recorded() if isinstance(data, (UsageLost, UsageReported))]
    assert kinds == [UsageLost, UsageReported]
    (lost,) = [(e, d) for e, d in office.recorded() if isinstance(d, UsageLost)]
    assert lost[0].type == "usage.lost"
    assert lost[1] == UsageLost("played", "played-1", LOST, 80.0, "USD")
    conversation = office.folder.read()
    assert (conversation.usage, conversation.calls, conversation.cost) == (LOST + USED, 1, 83.0)
    # What the next call may find in the cache, and how full the window is, the reply alone says.
    assert conversation.last_call.reported.usage == USED
    assert conversation.record(reply.artifact).counted == USED.prompt + USED.output
    assert read_header(office.folder).usage == LOST + USED


def test_the_next_turn_pays_for_those_of_the_last(office):
    office.talk(Failing(says("Hello.")))
    spent = spent_of(office.folder.read())
    assert (spent.steps, spent.tokens, spent.cost) == (1, 105, 83.0)
    assert isinstance(spent, Spent)
    player = Failing(says("Never said."))
    reply = office.talk(player)
    assert (reply.reason, player.requests) == ("tokens", [])
    assert office.folder.read().usage == LOST + USED + LOST


def test_a_turn_that_failed_has_what_it_lost(office):
    with pytest.raises(ProviderError):
        office.talk(Failing(ProviderError("busy")))
    conversation = office.folder.read()
    assert (conversation.usage, conversation.calls) == (LOST, 0)
    assert conversation.ended == TurnEnded("error", "busy")
