"""The edges of a turn: bounds that are reached in odd moments, counts that lie, storms within one reply."""

import asyncio
import time
from contextlib import aclosing

import msgspec
import pytest
from histories import says, talk
from making import body, compiled
from playing import Bench, Player, calls

from halo.errors import ProviderError
from halo.models.adapter import Finished, Notice, Retrying, TextDelta
from halo.records.artifacts import Artifact
from halo.records.budgets import Budget, Budgets
from halo.records.events import ContextShortened, MessageAdded, Repaired, ToolResultAdded, TurnEnded
from halo.records.messages import Message, ToolCall, user
from halo.records.usage import Usage
from halo.runner.record import History
from halo.runner.slots import fill
from halo.runner.tool_execution import NOT_RUN
from halo.runner.turn import Turn, run_turn

MADE = compiled(body("You are a."))
LONG = (*talk(40, 400), user("And now?"))


def a_turn(*history, **runtime):
    made = msgspec.structs.replace(MADE.manifest.runtime, **runtime)
    artifact = Artifact("id", MADE.prompt, msgspec.structs.replace(MADE.manifest, runtime=made))
    return Turn(artifact, fill(artifact, {}), History(history))


def events_of(turn, player, bench=None):
    async def go():
        async with aclosing(run_turn(turn, player, bench or Bench())) as events:
            return [event async for event in events]

    return asyncio.run(go())


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


# Bounds.


class Musing(Player):
    """Takes long for a summary."""

    async def stream(self, request):
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                if request.tool_choice == "none":
                    await asyncio.sleep(30)
                yield event


def test_a_summary_counts_in_the_time_of_the_turn_and_is_broken_off_with_it():
    turn = a_turn(*LONG, context_tokens=4000, strategies=("summarise",), budgets=Budgets(Budget(seconds=0.1)))
    player = Musing(says("sum"), says("Done."))
    began = time.monotonic()
    events = events_of(turn, player)
    assert time.monotonic() - began < 10
    assert events == [Notice("the turn ends: budgets.turn.seconds: 0.1 is reached"), TurnEnded("time")]
    assert player.order == ["stream opened", "stream closed"]
    assert turn.history.messages == LONG


def test_a_summary_counts_in_the_steps():
    turn = a_turn(*LONG, context_tokens=4000, strategies=("summarise",), budgets=Budgets(Budget(steps=1)))
    player = Player(says("sum"), says("Done."))
    events = events_of(turn, player)
    assert len(player.requests) == 1
    assert of(ContextShortened, events)
    assert events[-1] == TurnEnded("steps")


def test_nothing_is_begun_when_the_time_is_over():
    """The first tool takes the rest of the time; the second one would change something."""

    class Exact(Bench):
        async def run_batch(self, calls, clock):
            async with aclosing(super().run_batch(calls, clock)) as batch:
                async for answer in batch:
                    time.sleep(0.2)  # noqa: ASYNC251  # no timer can fire before the result is there
                    yield answer

    bench = Exact()
    events = events_of(
        a_turn(user("Go."), budgets=Budgets(Budget(seconds=0.1))), Player(calls("1", "2")), bench
    )
    assert [call.id for call in bench.ran] == ["1"]
    assert [e.result.is_error for e in of(ToolResultAdded, events)] == [False, True]
    assert events[-1] == TurnEnded("time")


class TimingOut(Player):
    async def stream(self, request):
        self.requests.append(request)
        yield TextDelta("Half")
        raise TimeoutError("the socket")


@pytest.mark.parametrize("budgets", [Budgets(), Budgets(Budget(seconds=60))])
def test_a_timeout_of_the_adapters_own_is_no_bound(budgets):
    player = TimingOut()
    with pytest.raises(TimeoutError, match="the socket"):
        events_of(a_turn(user("Go."), budgets=budgets), player)
    assert len(player.requests) == 1


# Counts.


class Reporting(Player):
    """Reports the given usage with every reply."""

    def __init__(self, usage, *replies):
        super().__init__(*replies)
        self.usage = usage

    async def stream(self, request):
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                last = isinstance(event, Finished)
                yield msgspec.structs.replace(event, usage=self.usage) if last else event


@pytest.mark.parametrize("usage", [Usage(), Usage(output=7)])
def test_a_server_that_counts_no_prompt_does_not_make_the_history_small(usage):
    turn = a_turn(*LONG, context_tokens=1_000_000)
    events_of(turn, Reporting(usage, says("Done.")))
    assert turn.history.tokens(0) == sum(turn.history.weights) > 4000


def test_what_a_server_counts_is_believed_for_what_it_counted():
    turn = a_turn(*LONG, context_tokens=1_000_000)
    events_of(turn, Reporting(Usage(uncached=900, read=100, output=10), says("Done.")))
    assert turn.history.tokens(0) == 1010
    turn.history.extend([user("x" * 360)])
    assert 1110 <= turn.history.tokens(0) <= 1120


# Storms and refusals.


def same(count):
    return Message("assistant", tuple(ToolCall(f"c{n}", "grep", '{"pattern": "x"}') for n in range(count)))


def test_a_storm_within_one_reply_runs_two_and_is_told_once():
    bench = Bench(always="nothing")
    events = events_of(a_turn(user("Go.")), Player(same(8), says("Done.")), bench)
    assert len(bench.ran) == 2
    answers = [e.result for e in of(ToolResultAdded, events)]
    assert [a.call_id for a in answers] == [f"c{n}" for n in range(8)]
    assert [a.is_error for a in answers] == [False] * 2 + [True] * 6
    assert {e.kind for e in of(Repaired, events)} == {"storm"}
    assert events[-1] == TurnEnded("done")


def test_equal_calls_with_different_results_are_no_storm_within_a_reply():
    bench = Bench()
    events = events_of(a_turn(user("Roll.")), Player(same(6), says("Done.")), bench)
    assert len(bench.ran) == 6
    assert not of(Repaired, events)


def test_a_refusal_leaves_the_history_whole():
    turn = a_turn(user("Go."))
    events_of(turn, Player(calls("1", "2"), stop="refusal"))
    assert [b.text for b in turn.history.messages[-1].content] == [NOT_RUN] * 2


# Arguments.


@pytest.mark.parametrize(
    "arguments",
    [
        '{"pattern": "half of what was me',
        '{"pattern": "int main() { return 0; }',
        '{"pattern": "ends with a quote \\"',
        '{"pattern":',
        '{"pattern": "x",',
        "{'pattern': 'half",
        "{'pattern': '" + "x" * 200_000 + "'}",  # whole, but so long that everything would wait
    ],
)
def test_arguments_that_break_off_are_not_closed_and_run(arguments):
    """What cannot be mended safely is left. Some servers say `stop` when their window is full; half a file must not be written as the whole."""
    bench = Bench()
    reply = Message("assistant", (ToolCall("c", "grep", arguments),))
    events = events_of(a_turn(user("Go.")), Player(reply, says("Done.")), bench)
    assert not of(Repaired, events)
    assert bench.ran[0].arguments == arguments  # for the toolbox to refuse


@pytest.mark.parametrize(
    "arguments",
    ['{"pattern": "x"', "{'pattern': 'x'}", '{"pattern": "x",}', '```json\n{"pattern": "x"}\n```'],
)
def test_arguments_that_are_whole_but_malformed_are_mended(arguments):
    bench = Bench()
    reply = Message("assistant", (ToolCall("c", "grep", arguments),))
    events = events_of(a_turn(user("Go.")), Player(reply, says("Done.")), bench)
    assert bench.ran == [ToolCall("c", "grep", '{"pattern":"x"}')]
    assert [e.before for e in of(Repaired, events)] == [arguments]


# Overflow.


def test_after_an_overflow_the_input_is_sent_once_and_what_was_kept_is_recorded():
    turn = a_turn(*LONG, context_tokens=1_000_000, strategies=("prune",))
    player = Player(ProviderError("too long", kind="overflow"), says("Done."))
    events = events_of(turn, player)
    first, second = player.requests
    assert first.history == LONG
    assert len(second.history) < len(first.history)
    assert second.history.count(LONG[-1]) == 1
    assert second.history == turn.history.messages[:-1]
    assert [type(e) for e in events if type(e) in (ContextShortened, MessageAdded)] == [
        ContextShortened,
        MessageAdded,
    ]


def test_words_before_an_overflow_are_void():
    """Else a reader has both: the half that broke off, and the whole."""
    turn = a_turn(*LONG, context_tokens=1_000_000, strategies=("prune",))
    events = events_of(turn, Player(ProviderError("too long", kind="overflow"), says("Done.")))
    assert [e for e in events if isinstance(e, (TextDelta, Retrying))] == [
        TextDelta("Half an "),
        Retrying("the conversation was too long", 0.0, 1),
        TextDelta("Done."),
    ]


def test_what_cannot_be_shortened_ends_with_the_providers_words():
    player = Player(*(ProviderError("52,000 tokens are too many", kind="overflow") for _ in range(9)))
    with pytest.raises(ProviderError, match="52,000 tokens are too many"):
        events_of(a_turn(*LONG, strategies=("prune",)), player)
    assert 2 <= len(player.requests) <= 4
