"""Attempts that failed after tokens had been counted: turn and run pay for them, and what was paid is recorded."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from histories import says, talk
from making import body, compiled
from playing import Bench

from halo.errors import ProviderError
from halo.models.adapter import Finished, Lost, Notice, Retrying, TextDelta
from halo.models.prices import Cost
from halo.records.artifacts import Artifact
from halo.records.budgets import Budget, Budgets
from halo.records.events import ContextShortened, MessageAdded, TurnEnded, UsageLost, UsageReported
from halo.records.messages import Message, Text, user
from halo.records.usage import Usage
from halo.runner.budgets import Ledger, Spent, turn_ledger
from halo.runner.event_lines import event_line
from halo.runner.record import History
from halo.runner.slots import fill
from halo.runner.turn import Turn, run_turn
from halo.runner.ui_messages import UiMessage

MADE = compiled(body("You are a."))
USED = Usage(uncached=3, output=2)
LOST = Usage(uncached=70, read=20, output=10)


class Failing:
    """A model of which the first attempts of each call fail, after it has counted."""

    provider = "played"

    def __init__(self, *replies, failures=1, final=False):
        self.replies, self.failures, self.final = list(replies), failures, final
        self.attempts = 0

    async def stream(self, request):
        for number in range(self.failures):
            self.attempts += 1
            yield TextDelta("Half an ")
            yield Lost(LOST, "played-1")
            if not self.final or number + 1 < self.failures:
                yield Retrying("busy", 0.0, number + 1)
        if self.final:
            raise ProviderError("busy", kind="transient")
        self.attempts += 1
        reply = self.replies.pop(0)
        yield TextDelta(reply.text)
        yield Finished(reply, "end", USED, "played-1", "digest")


def a_turn(*history, **runtime):
    made = msgspec.structs.replace(MADE.manifest.runtime, **runtime)
    artifact = Artifact("id", MADE.prompt, msgspec.structs.replace(MADE.manifest, runtime=made))
    return Turn(artifact, fill(artifact, {}), History(history or (user("Go."),)))


def price(usage):
    return Cost((usage.prompt + usage.output) / 100, "USD")


def ran(turn, model, budgets=None, spent=None):
    """Run a turn; returns (events, error, the run's ledger)."""
    budgets = budgets or Budgets()
    run = Ledger("run", budgets.run, lambda: 0.0, spent=spent)
    ledger = turn_ledger(budgets, lambda: 0.0, run)
    events = []

    async def go():
        async with aclosing(run_turn(turn, model, Bench(), ledger=ledger, price=price)) as running:
            async for event in running:
                events.append(event)  # noqa: PERF401  # those before an error count

    try:
        asyncio.run(go())
    except ProviderError as error:
        return events, error, run
    return events, None, run


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def test_what_they_used_is_recorded_beside_the_call_and_counts_in_turn_and_run():
    events, _, run = ran(a_turn(), Failing(says("Done."), failures=2))
    lost = UsageLost("played", "played-1", LOST, 1.0, "USD")
    assert of(UsageLost, events) == [lost, lost]
    (call,) = of(UsageReported, events)
    assert (call.usage, call.attempts, call.cost) == (USED, 3, 0.05)
    assert run.spent == Spent(steps=1, tokens=205, cost=2.05)
    # It is told before what became of the attempt.
    kinds = [type(e) for e in events if isinstance(e, (UsageLost, Retrying, UsageReported))]
    assert kinds == [UsageLost, Retrying, UsageLost, Retrying, UsageReported]


def test_a_call_that_is_given_up_counts_although_nothing_came_of_it():
    events, error, run = ran(a_turn(), Failing(failures=3, final=True))
    assert error.message == "busy"
    assert len(of(UsageLost, events)) == 3
    assert run.spent == Spent(steps=0, tokens=300, cost=3.0)


@pytest.mark.parametrize(
    ("budgets", "reason", "bound"),
    [
        (Budgets(turn=Budget(tokens=150)), "tokens", "budgets.turn.tokens: 150"),
        (Budgets(run=Budget(cost=1.5)), "cost", "budgets.run.cost: 1.5"),
    ],
)
def test_no_attempt_is_made_for_more_than_there_is(budgets, reason, bound):
    model = Failing(says("Done."), failures=5)
    events, error, _ = ran(a_turn(), model, budgets)
    assert error is None
    assert model.attempts == 2
    assert events[-2:] == [Notice(f"the turn ends: {bound} is reached"), TurnEnded(reason)]
    # What was shown of the last attempt is not taken back.
    assert of(MessageAdded, events) == [MessageAdded(Message("assistant", (Text("Half an "),)), partial=True)]


def test_they_are_no_steps():
    events, _, _ = ran(a_turn(), Failing(says("Done."), failures=4), Budgets(turn=Budget(steps=1)))
    assert events[-1] == TurnEnded("done")


def test_those_of_a_summary_count_too():
    history = (*talk(40, 400), user("And now?"))
    turn = a_turn(*history, context_tokens=4000, strategies=("summarise",))
    events, _, run = ran(turn, Failing(says("sum"), says("Done.")))
    assert of(ContextShortened, events)
    assert len(of(UsageLost, events)) == 2
    assert run.spent.tokens == 2 * (100 + 5)


def test_the_size_of_the_history_is_that_of_the_reply_alone():
    turn = a_turn()
    ran(turn, Failing(says("Done."), failures=3))
    assert turn.history.counted == 5


def test_event_streams_tell_it():
    lost = UsageLost("played", "played-1", LOST, 1.0, "USD")
    assert event_line(lost).startswith(b'{"type":"usage.lost","provider":"played"')
    message = UiMessage("m")
    for event in (lost, UsageReported("played", "played-1", USED), TurnEnded("done")):
        chunks = message.feed(event)
    (finish,) = [c for c in chunks if c["type"] == "finish"]
    assert finish["messageMetadata"]["usage"]["output"] == 12
