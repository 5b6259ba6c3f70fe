"""What attempts have used that failed is in the stats of an agent and in its budgets, whatever kind of call."""

import asyncio

import pytest
from making import agent as agent_yaml
from playing import Player, says

from halo import Agent, Workspace
from halo.errors import BudgetError, ProviderError
from halo.models.adapter import Lost, Retrying
from halo.records.budgets import Budget, Budgets
from halo.records.usage import Usage

LOST = Usage(uncached=80, read=20)
USED = Usage(uncached=3, output=2)  # of each reply
OBJECT = {"type": "object"}


class Failing(Player):
    """The first attempts of each call fail, after tokens were counted."""

    failures = 1

    async def stream(self, request):
        for number in range(self.failures):
            yield Lost(LOST, "played-1")
            yield Retrying("busy", 0.0, number + 1)
        async for event in super().stream(request):
            yield event


@pytest.fixture
def place(ws):
    ws.write(
        {
            ".halo/agents/default/agent.yaml": agent_yaml(model={"provider": "openai", "id": "played"}),
            ".halo/agents/default/AGENT.md": "You answer.\n",
            ".halo/models/openai.yaml": (
                "name: O\nmodels:\n  played:\n    as_of: 2026-01-02\n    prices:\n"
                "      - {from: 2020-01-01, currency: USD, input: 10, output: 20, cache_read: 1}\n"
            ),
        }
    )
    return Workspace(ws.root, environ=ws.environ())


def load(place, *replies, failures=1, **options):
    player = Failing(*replies)
    player.failures = failures
    return Agent.load(place, adapter=player, **options)


def run(work):
    return asyncio.run(work)


def test_a_turn(place):
    agent = load(place, says("Done."), failures=2)
    result = run(agent.generate_text("Go."))
    assert result.usage == agent.stats.usage == LOST + LOST + USED
    assert (result.steps, agent.stats.calls) == (1, 1)
    assert result.cost == agent.stats.cost


def test_calls_by_hand_and_objects(place):
    agent = load(place, says("Hi."), says("{}"), says("x"))
    reply = run(agent.send("Go."))
    assert reply.usage == USED  # of the reply alone
    run(agent.generate_object("?", OBJECT))
    run(agent.warm())
    assert agent.stats.calls == 3
    assert agent.stats.usage == LOST + LOST + LOST + USED + USED + USED


@pytest.mark.parametrize("how", ["generate_text", "send"])
def test_a_call_that_is_given_up(place, how):
    agent = load(place, ProviderError("busy"))
    with pytest.raises(ProviderError):
        run(getattr(agent, how)("Go."))
    assert agent.history == ()
    assert (agent.stats.calls, agent.stats.usage) == (0, LOST)


def test_a_run_pays_for_them_in_one_call_and_in_the_next(place):
    agent = load(place, says("One."), says("Two."), budgets=Budgets(run=Budget(tokens=150)))
    run(agent.send("1"))
    with pytest.raises(BudgetError, match=r"budgets\.run\.tokens: 150 is reached"):
        run(agent.send("2"))
    assert agent.stats.usage == LOST + USED + LOST  # the attempt that went over it was the last
    with pytest.raises(BudgetError):
        run(agent.send("3"))
    assert agent.stats.usage == LOST + USED + LOST


def test_what_they_cost(place):
    agent = load(place, says("One."))
    run(agent.generate_text("Go."))
    assert agent.stats.currency == "USD"
    lost = (80 * 10 + 20 * 1) / 1e6
    assert agent.stats.cost == pytest.approx(lost + (3 * 10 + 2 * 20) / 1e6)
