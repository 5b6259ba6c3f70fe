"""The turn: what happens in which order, and what is let go of when somebody breaks off."""

import asyncio
from contextlib import aclosing

import pytest
from making import body, compiled
from playing import Bench, Player, calls, says

from halo.errors import ProviderError
from halo.records.artifacts import Artifact
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, UsageReported
from halo.records.messages import Message, ToolResult, user
from halo.runner import turn as turn_module
from halo.runner.slots import fill
from halo.runner.turn import NOT_RUN, Turn, run_turn


def a_turn(*history):
    made = compiled(body("You are a."))
    artifact = Artifact("id", made.prompt, made.manifest)
    return Turn(artifact, fill(artifact, {}), history or (user("Go."),))


def events_of(player, bench=None, *history):
    async def go():
        async with aclosing(run_turn(a_turn(*history), player, bench or Bench())) as events:
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


def test_a_refusal_runs_none_of_its_calls_and_leaves_none_without_a_result():
    bench = Bench()
    events = events_of(Player(calls("1", "2"), stop="refusal"), bench)
    assert bench.ran == []
    answers = [e.result for e in events if isinstance(e, ToolResultAdded)]
    assert answers == [ToolResult(i, NOT_RUN, is_error=True) for i in ("1", "2")]
    assert events[-1] == TurnEnded("refusal")


def test_a_turn_that_goes_round_in_circles_is_ended(monkeypatch):
    monkeypatch.setattr(turn_module, "MOST_STEPS", 2)
    assert events_of(Player(calls("1"), calls("2")))[-1] == TurnEnded("steps")


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
