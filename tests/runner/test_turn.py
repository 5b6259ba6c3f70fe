"""The turn: what happens in which order, and what is let go of when somebody breaks off."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from making import body, compiled
from playing import Bench, Player, calls, says

from halo.errors import ProviderError, StartError
from halo.models.adapter import Notice, Retrying
from halo.models.prices import Cost
from halo.records.artifacts import Artifact
from halo.records.budgets import Budget, Budgets
from halo.records.events import MessageAdded, Repaired, ToolResultAdded, TurnEnded, UsageReported
from halo.records.messages import Message, Text, Thinking, ToolCall, ToolResult, user
from halo.runner.budgets import free
from halo.runner.record import History
from halo.runner.repair import CUT_OFF
from halo.runner.slots import fill
from halo.runner.tool_execution import NOT_RUN, OUT_OF_TIME
from halo.runner.turn import Turn, run_turn


def a_turn(*history, **runtime):
    made = compiled(body("You are a."))
    manifest = msgspec.structs.replace(
        made.manifest, runtime=msgspec.structs.replace(made.manifest.runtime, **runtime)
    )
    artifact = Artifact("id", made.prompt, manifest)
    return Turn(artifact, fill(artifact, {}), History(history or (user("Go."),)))


def events_of(player, bench=None, *history, price=free, **runtime):
    async def go():
        turn = a_turn(*history, **runtime)
        async with aclosing(run_turn(turn, player, bench or Bench(), price=price)) as events:
            return [event async for event in events]

    return asyncio.run(go())


def records(events):
    kinds = (MessageAdded, ToolResultAdded, UsageReported, TurnEnded)
    return [type(e).__name__ for e in events if isinstance(e, kinds)]


def test_model_and_tools_alternate_until_the_model_is_done():
    player = Player(calls("1", "2"), says("Done."))
    events = events_of(player)
    step = ["MessageAdded", "UsageReported"]
    assert records(events) == [*step, "ToolResultAdded", "ToolResultAdded", *step, "TurnEnded"]
    assert events[-1] == TurnEnded("done")
    results = Message("user", (ToolResult("1", "result 1"), ToolResult("2", "result 2")))
    assert player.requests[1].messages == (user("Go."), calls("1", "2"), results)


@pytest.mark.parametrize(
    ("stop", "reason"), [("refusal", "refusal"), ("max_tokens", "max_tokens"), ("end", "done")]
)
def test_a_turn_ends_with_the_reason_that_the_model_stopped_for(stop, reason):
    assert events_of(Player(says("No."), stop=stop))[-1] == TurnEnded(reason)


@pytest.mark.parametrize(
    ("stop", "reason", "why"),
    [
        ("end", "silent", ""),
        ("max_tokens", "max_tokens", ": `max_tokens` were over before"),
        ("refusal", "refusal", ": the reply was refused"),
    ],
)
def test_thoughts_alone_are_no_answer_and_that_is_said(stop, reason, why):
    reply = Message("assistant", (Thinking("Hm"), Text("")))
    events = events_of(Player(reply, stop=stop))
    assert MessageAdded(reply) in events
    assert events[-2:] == [Notice(f"the model has thought and said nothing{why}"), TurnEnded(reason)]


def test_a_refusal_runs_none_of_its_calls_and_leaves_none_without_a_result():
    bench = Bench()
    events = events_of(Player(calls("1", "2"), stop="refusal"), bench)
    assert bench.ran == []
    answers = [e.result for e in events if isinstance(e, ToolResultAdded)]
    assert answers == [ToolResult(i, NOT_RUN, is_error=True) for i in ("1", "2")]
    assert events[-1] == TurnEnded("refusal")


def test_a_turn_ends_when_its_steps_are_used_up():
    budgets = Budgets(turn=Budget(steps=2))
    events = events_of(Player(calls("1"), calls("2")), budgets=budgets)
    assert events[-2:] == [Notice("the turn ends: budgets.turn.steps: 2 is reached"), TurnEnded("steps")]
    assert isinstance(events[-3], ToolResultAdded)


def test_without_a_word_of_agent_yaml_a_turn_has_twenty_five_steps():
    many = [calls(str(n)) for n in range(30)]
    player = Player(*many)
    assert events_of(player)[-1] == TurnEnded("steps")
    assert len(player.requests) == 25


def test_a_repeated_id_is_renamed_before_anything_is_done_with_it():
    """Within a message, across the turn, and across the history: the record, the tool and the model agree."""
    player, bench = Player(calls("a", "a", ""), calls("a"), says("Done.")), Bench()
    before = (user("Hi."), calls("a"), Message("user", (ToolResult("a", "old"),)), user("Go."))
    events = events_of(player, bench, *before)
    ids = ["a_2", "a_3", "call_2", "a_4"]
    assert [call.id for call in bench.ran] == ids
    assert [c.id for e in events if isinstance(e, MessageAdded) for c in e.message.calls] == ids
    assert [e.result.call_id for e in events if isinstance(e, ToolResultAdded)] == ids
    sent = player.requests[-1].messages[len(before) :]
    assert [c.id for m in sent for c in m.calls] == ids


@pytest.mark.parametrize("breaks", ["leaves", "raises", "is cancelled"])
def test_the_stream_is_closed_before_the_adapter(breaks):
    """However a consumer breaks off: a stream that outlives its adapter would use connections that are gone."""
    player = Player(None)

    async def consume():
        try:
            async with aclosing(run_turn(a_turn(), player, Bench())) as events:
                async for _ in events:
                    if breaks == "leaves":
                        break
                    if breaks == "raises":
                        raise BrokenPipeError
        finally:
            await player.close()

    async def go():
        task = asyncio.ensure_future(consume())
        if breaks == "is cancelled":
            await asyncio.sleep(0.01)
            task.cancel()
        await asyncio.wait([task])
        return task

    asyncio.run(go())
    assert player.order == ["stream opened", "stream closed", "adapter closed"]


def test_what_the_adapter_raises_is_raised():
    with pytest.raises(ProviderError, match="boom"):
        events_of(Player(ProviderError("boom")))


def answers(events):
    return [e.result for e in events if isinstance(e, ToolResultAdded)]


def grep(pattern, identity="c"):
    return Message("assistant", (ToolCall(identity, "grep", f'{{"pattern": "{pattern}"}}'),))


class TestBudgets:
    def test_tokens(self):
        events = events_of(
            Player(calls("1"), calls("2"), says("Done.")), budgets=Budgets(turn=Budget(tokens=10))
        )
        assert events[-1] == TurnEnded("tokens")
        assert len([e for e in events if isinstance(e, UsageReported)]) == 2  # five tokens each

    def test_money(self):
        events = events_of(
            Player(calls("1"), calls("2"), says("Done.")),
            budgets=Budgets(turn=Budget(cost=0.5)),
            price=lambda usage: Cost(0.25 if usage.prompt else 0.0, "USD"),
        )
        assert events[-1] == TurnEnded("cost")
        reported = [e for e in events if isinstance(e, UsageReported)]
        assert [(e.cost, e.currency) for e in reported] == [(0.25, "USD"), (0.25, "USD")]

    def test_a_bound_in_money_without_a_price_stops_before_the_first_call(self):
        player = Player(says("Done."))
        with pytest.raises(StartError, match=r"budgets\.run\.cost cannot be kept"):
            events_of(player, budgets=Budgets(run=Budget(cost=1)))
        assert not player.requests

    def test_time_breaks_off_a_running_tool_and_answers_every_call(self):
        bench = Bench(seconds=30)
        events = events_of(Player(calls("1", "2")), bench, budgets=Budgets(turn=Budget(seconds=0.05)))
        assert events[-1] == TurnEnded("time")
        first, second = answers(events)
        assert first == ToolResult("1", OUT_OF_TIME, is_error=True)
        assert "budgets.turn.seconds" in second.text
        assert [c.id for c in bench.ran] == ["1"]

    def test_time_breaks_off_a_running_call_and_keeps_its_words(self):
        player = Player(None)
        events = events_of(player, budgets=Budgets(turn=Budget(seconds=0.05)))
        assert MessageAdded(Message("assistant", (Text("Half an "),)), partial=True) in events
        assert events[-1] == TurnEnded("time")
        assert player.order == ["stream opened", "stream closed"]

    def test_a_turn_counts_in_its_run(self):
        from halo.runner.budgets import Ledger, Spent, turn_ledger

        budgets = Budgets(turn=Budget(), run=Budget(steps=5))
        run = Ledger("run", budgets.run, lambda: 0.0, spent=Spent(steps=4))

        async def go():
            turn = a_turn(budgets=budgets)
            ledger = turn_ledger(budgets, lambda: 0.0, run)
            async with aclosing(
                run_turn(turn, Player(calls("1"), says("x")), Bench(), ledger=ledger)
            ) as events:
                return [event async for event in events]

        assert asyncio.run(go())[-1] == TurnEnded("steps")
        assert run.spent.steps == 5


class TestRepair:
    def test_malformed_arguments_are_mended_where_they_fit(self):
        broken = Message("assistant", (ToolCall("c", "grep", "{pattern: 'x',}"),))
        bench, player = Bench(), Player(broken, says("Done."))
        events = events_of(player, bench)
        assert bench.ran == [ToolCall("c", "grep", '{"pattern":"x"}')]
        assert Repaired("arguments", "c", "grep", before="{pattern: 'x',}") in events
        assert player.requests[1].history[1].calls == tuple(bench.ran)  # what was run is what is remembered

    @pytest.mark.parametrize("arguments", ["{patern: 'x'}", "[1, 2", "so sorry", "{", "'"])
    def test_what_does_not_fit_is_left_for_the_toolbox_to_refuse(self, arguments):
        bench = Bench()
        broken = Message("assistant", (ToolCall("c", "grep", arguments),))
        events = events_of(Player(broken, says("Done.")), bench)
        assert bench.ran[0].arguments == arguments
        assert not [e for e in events if isinstance(e, Repaired)]

    def test_a_reply_that_was_cut_off_runs_all_its_calls_but_the_last(self):
        two = Message(
            "assistant", (ToolCall("a", "grep", '{"pattern": "x"}'), ToolCall("b", "grep", '{"pat'))
        )
        bench = Bench()
        player = Player(two, says("Done."), stop="max_tokens")
        events = events_of(player, bench)
        assert [c.id for c in bench.ran] == ["a"]
        assert answers(events) == [ToolResult("a", "result 1"), ToolResult("b", CUT_OFF, is_error=True)]
        assert not [e for e in events if isinstance(e, Repaired)]

    def test_the_same_call_with_the_same_result_is_not_run_a_third_time_in_a_row(self):
        bench = Bench(always="nothing")
        player = Player(*(grep("x", str(n)) for n in range(3)), says("Done."))
        events = events_of(player, bench)
        assert len(bench.ran) == 2
        assert answers(events)[2].is_error
        assert "2 times before" in answers(events)[2].text
        assert [e.kind for e in events if isinstance(e, Repaired)] == ["storm"]
        assert events[-1] == TurnEnded("done")

    def test_nor_among_others_again_and_again(self):
        bench = Bench(always="nothing")
        order = ["x", "y", "x", "z", "x", "y", "x"]
        player = Player(*(grep(p, str(n)) for n, p in enumerate(order)), says("Done."))
        events_of(player, bench)
        assert len(bench.ran) == 6

    def test_with_another_result_each_time_it_is_no_storm(self):
        bench = Bench()
        events_of(Player(*(grep("x", str(n)) for n in range(6)), says("Done.")), bench)
        assert len(bench.ran) == 6

    def test_spelling_makes_no_other_call(self):
        bench = Bench(always="nothing")
        spelt = ['{"pattern": "x"}', '{"pattern":"x"}', '{ "pattern" : "x" }']
        replies = [Message("assistant", (ToolCall(str(n), "grep", a),)) for n, a in enumerate(spelt)]
        events_of(Player(*replies, says("Done.")), bench)
        assert len(bench.ran) == 2

    def test_a_model_that_does_not_listen_ends_the_turn(self):
        bench = Bench(always="nothing")
        player = Player(*(grep("x", str(n)) for n in range(20)))
        events = events_of(player, bench)
        assert events[-1] == TurnEnded("storm")
        assert len(bench.ran) == 2
        assert len(player.requests) == 5

    def test_asking_how_something_is_doing_may_be_repeated(self):
        class Anything(Bench):
            def fits(self, name, arguments):
                return True

        bench = Anything(always="running")
        polls = [Message("assistant", (ToolCall(str(n), "session_list", "{}"),)) for n in range(10)]
        events = events_of(Player(*polls, says("Done.")), bench)
        assert len(bench.ran) == 10
        assert events[-1] == TurnEnded("done")


def test_a_call_that_is_made_again_says_how_often():
    class Stumbling(Player):
        async def stream(self, request):
            yield Retrying("overloaded", 0.0, 1)
            yield Retrying("overloaded", 0.0, 2)
            async with aclosing(super().stream(request)) as events:
                async for event in events:
                    yield event

    events = events_of(Stumbling(says("Done.")))
    assert [e.attempts for e in events if isinstance(e, UsageReported)] == [3]
    assert len([e for e in events if isinstance(e, Retrying)]) == 2


def test_the_history_of_a_turn_is_the_turns_own():
    """It grows by what is yielded, so that whoever keeps the records has the same."""
    player = Player(calls("1"), says("Done."))
    turn = a_turn()

    async def go():
        async with aclosing(run_turn(turn, player, Bench())) as events:
            return [event async for event in events]

    asyncio.run(go())
    assert [m.role for m in turn.history.messages] == ["user", "assistant", "user", "assistant"]
    assert player.requests[1].history == turn.history.messages[:3]
