"""Shortening a history as a turn does it: when, by what, what is recorded, what a failure leaves behind."""

import asyncio
from contextlib import aclosing

import pytest
from histories import fit, histories, says, skill, step, talk, view, weight
from hypothesis import given
from hypothesis import strategies as st
from playing import Player

from halo.errors import ProviderError
from halo.models.adapter import Finished, Notice
from halo.models.prefix import Prefix
from halo.records.artifacts import Binding, Runtime
from halo.records.events import ContextShortened, UsageReported
from halo.records.messages import Message, ToolCall, ToolResult, user
from halo.records.tools import WORKSPACE_TOOLS
from halo.records.usage import Usage
from halo.runner import record
from halo.runner.context.context import Context
from halo.runner.context.notes import LEFT_OUT, summary_message
from halo.runner.context.summarise import INSTRUCTION
from halo.runner.record import History, applied

BINDING = Binding("openai", "m", max_tokens=1000)
PREFIX = Prefix("You help.", "You help.", WORKSPACE_TOOLS[:1])


def context(*replies, strategies=("prune", "summarise"), window=10_000, patience=5.0, **options):
    runtime = Runtime(BINDING, context_tokens=window, strategies=strategies, **options)
    player = Player(*replies, stop=None)
    return Context(runtime, PREFIX, player, patience=patience), player


def shorten(made, history, reason=None, **options):
    """Shorten and return what was told; without `reason`, as often as the context asks for it itself."""

    async def go():
        why = made.reason(history) if reason is None else reason
        if not why:
            return []
        async with aclosing(made.shorten(history, why, **options)) as events:
            return [event async for event in events]

    return asyncio.run(go())


def strategies_of(events):
    return [event.strategy for event in events if isinstance(event, ContextShortened)]


def notices(events):
    return [event.text for event in events if isinstance(event, Notice)]


def steps(count, text="line of a file\n" * 200, tool="file_read"):
    return [m for n in range(count) for m in step(tool=tool, **{f"c{n}": text})]


# When.


def test_nothing_is_done_below_the_limit():
    made, player = context()
    history = History(talk(20))
    assert made.reason(history) == ""
    assert shorten(made, history) == []
    assert player.requests == []


def test_the_fill_that_the_agent_names_is_the_limit():
    for fill, reason in ((0.3, "fill"), (0.8, "")):
        made, _ = context(compress_at=fill)
        assert made.reason(History(talk(40))) == reason


def test_a_reply_of_full_length_still_fits():
    made = Context(Runtime(Binding("openai", "m", max_tokens=6000), context_tokens=10_000), PREFIX, Player())
    history = History(talk(40))
    assert 4000 < history.tokens(0) < 8000
    assert made.reason(history) == "fill"


def test_what_the_provider_counted_is_believed():
    made, _ = context()
    history = History(talk(20))
    history.measured(9_500)
    assert made.reason(history) == "fill"


def test_what_came_since_counts_too():
    made, _ = context()
    history = History(talk(10))
    history.measured(7_500)
    assert made.reason(history) == ""
    history.extend(step(new="x" * 3_000))
    assert made.reason(history) == "fill"


def test_asking_does_not_look_at_the_history_again():
    """What is measured stays measured: 10,000 messages cost no more than ten."""
    made, _ = context(window=10_000_000)
    history = History(talk(5_000))
    history.measured(5_000)
    looked = []

    class Watched(tuple):
        __slots__ = ()

        def __iter__(self):
            looked.append(self)
            return super().__iter__()

    history._messages = Watched(history._messages)
    assert made.reason(history) == ""
    assert looked == []


def test_what_is_estimated_for_a_turn_is_not_estimated_for_the_next_one(monkeypatch):
    """A turn works on a copy. Where no provider counts, it would look at the whole history each time."""
    looked = []

    def counting(message, count=record.message_tokens):
        looked.append(message)
        return count(message)

    monkeypatch.setattr(record, "message_tokens", counting)
    history = History(talk(100))
    for more in range(3):
        turn = history.copy()
        assert turn.tokens(7) == 7 + sum(history.weights)
        assert len(looked) == len(history.messages)
        history.extend((user(f"more {more}"),))


# Prune, summarise, truncate.


def test_pruning_alone_where_that_is_enough():
    made, player = context()
    history = History((user("look"), *steps(30, text="a line\n" * 200), says("done"), user("more")))
    before = history.messages
    events = shorten(made, history)
    assert strategies_of(events) == ["prune"]
    assert player.requests == []
    assert history.messages == applied(before, events[0].edits)
    assert events[0].reason == "fill"
    assert events[0].tokens_after < events[0].tokens_before
    assert made.reason(history) == ""


def test_a_summary_is_asked_with_the_same_prefix_and_no_tools():
    made, player = context(says("They asked 50 questions."))
    history = History((*talk(90), user("and now?")))
    events = shorten(made, history)
    request = player.requests[0]
    assert request.prefix is PREFIX
    assert request.tool_choice == "none"
    assert request.binding == BINDING
    assert request.history == (*talk(90), INSTRUCTION)
    assert [type(e) for e in events] == [UsageReported, ContextShortened]
    assert history.messages[0] == summary_message("They asked 50 questions.")
    assert history.messages[-1] == user("and now?")
    assert INSTRUCTION not in history.messages
    assert made.reason(history) == ""


def test_one_step_goes_half_way_down():
    made, _ = context(says("short"))
    history = History(talk(90))
    shorten(made, history)
    assert weight(history.messages) < 8_000 // 2


LATE = object()


class Odd(Player):
    """Says what it is told with the stop reason that comes with it."""

    async def stream(self, request):
        self.requests.append(request)
        reply, stop = self.replies.pop(0)
        if reply is LATE:
            await asyncio.sleep(3600)
        if isinstance(reply, Exception):
            raise reply
        yield Finished(reply, stop, Usage(uncached=3, output=2), "odd-1", "digest")


CALLING = Message("assistant", (ToolCall("x", "shell_exec", '{"command": "rm"}'),))


@pytest.mark.parametrize(
    ("reply", "stop", "why"),
    [
        (says("half of"), "max_tokens", "cut off"),
        (says("  "), "end", "empty"),
        (CALLING, "tool_calls", "something else"),
        (says("I cannot"), "refusal", "something else"),
        (says("long " * 9_000), "end", "longer than what it sums up"),
        (ProviderError("no such model"), "", "no such model"),
        (LATE, "", "longer than 0.05 s"),
    ],
)
def test_a_summary_that_fails_leaves_the_history_as_it_was(reply, stop, why):
    player = Odd((reply, stop))
    runtime = Runtime(BINDING, context_tokens=12_500, strategies=("summarise",))
    made = Context(runtime, PREFIX, player, patience=0.05)
    history = History(talk(90))
    events = shorten(made, history)
    assert history.messages == talk(90)
    assert strategies_of(events) == []
    assert why in notices(events)[0]
    # What it cost is told all the same, and it is not tried again at once.
    assert any(isinstance(e, UsageReported) for e in events) == (stop != "")
    assert made.reason(history) == ""


def test_after_a_summary_that_fails_comes_the_next_strategy():
    made, _ = context(ProviderError("down"), strategies=("summarise", "truncate"))
    history = History(talk(90))
    events = shorten(made, history)
    assert "down" in notices(events)[0]
    assert strategies_of(events) == ["truncate"]
    assert history.messages[0] == LEFT_OUT


def test_where_a_summary_fails_and_a_reply_has_no_room_the_oldest_go_even_if_truncate_is_not_listed():
    """A server that drops the beginning of a long request without a word would drop the prompt."""
    made, _ = context(ProviderError("down"), strategies=("prune", "summarise"), window=10_000)
    history = History((*talk(90), user("go")))
    assert history.tokens(0) > 9_000
    events = shorten(made, history)
    assert "down" in notices(events)[0]
    assert strategies_of(events) == ["truncate"]
    assert history.messages[-1] == user("go")


def test_a_summary_call_that_is_too_long_itself_is_made_once_more_on_less():
    made, player = context(ProviderError("too long", kind="overflow"), says("in short"))
    history = History(talk(90))
    shorten(made, history)
    first, second = player.requests
    assert weight(second.history) < weight(first.history) / 2
    assert second.history[-1] == INSTRUCTION
    assert history.messages[0] == summary_message("in short")


def test_cancelling_a_summary_leaves_the_history_as_it_was():
    made, player = context(None)
    history = History(talk(90))

    async def go():
        task = asyncio.ensure_future(anext(made.shorten(history, "fill")))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert player.order == ["stream opened", "stream closed"]
    assert history.messages == talk(90)


def test_skills_survive_every_strategy():
    loaded = skill("s", "Always greet first. " * 20)
    for strategies in (("prune",), ("summarise",), ("truncate",)):
        made, _ = context(says("sum"), strategies=strategies)
        history = History((user("go"), *loaded, *steps(30, tool="grep"), *talk(90)))
        assert strategies_of(shorten(made, history))[0] == strategies[0]
        assert all(m in history.messages for m in loaded)


# The cap.


def test_the_cap_by_number_of_messages():
    made, _ = context(max_messages=20)
    history = History(talk(10))
    assert made.reason(history) == ""
    history.extend([user("one more")])
    events = shorten(made, history)
    assert strategies_of(events) == ["cap"]
    assert events[0].reason == "cap"
    assert len(history.messages) <= 11


# After the provider's overflow.


def test_an_overflow_truncates_as_the_last_resort():
    made, _ = context(strategies=())
    history = History(talk(20))
    assert strategies_of(shorten(made, history)) == []
    events = shorten(made, history, "overflow")
    assert strategies_of(events) == ["truncate"]
    assert events[0].reason == "overflow"


def test_each_overflow_shortens_further_whatever_window_was_configured():
    """The server's window is 500 tokens, the agent says 200,000."""
    made, _ = context(strategies=("prune",), window=200_000)
    history = History((*talk(40), user("and now?")))
    shortenings = 0
    while weight(history.messages) > 500:
        assert strategies_of(shorten(made, history, "overflow", harder=shortenings > 0))
        shortenings += 1
    assert shortenings <= 4
    assert history.messages[-1] == user("and now?")


def test_where_nothing_is_left_to_shorten_nothing_is_told():
    made, _ = context()
    history = History([user("x" * 100_000)])
    assert shorten(made, history) == []
    assert shorten(made, history, "overflow", harder=True) == []


def test_what_cannot_be_made_to_fit_is_not_tried_before_every_call():
    made, player = context(*(ProviderError("down") for _ in range(9)))
    history = History((*talk(90), user("go")))
    asked = 0
    for number in range(12):
        asked += bool(made.reason(history))
        shorten(made, history)
        history.extend(step(**{f"n{number}": "x" * 400}))
    assert asked <= 3
    assert len(player.requests) == asked


# Any history.


@given(
    histories(least=1),
    st.lists(st.sampled_from(["prune", "summarise", "truncate"]), unique=True),
    st.integers(1_100, 6_000),
    st.sampled_from(["fill", "overflow", "cap"]),
    st.booleans(),
)
def test_any_history_under_any_strategies_is_fit_and_replayed(messages, strategies, window, reason, harder):
    made, _ = context(says("a summary"), strategies=tuple(strategies), window=window, max_messages=12)
    history = History(messages)
    events = shorten(made, history, reason, harder=harder)
    assert fit(history.messages)
    assert history.messages[-1] == messages[-1]
    assert weight(history.messages) <= weight(messages)
    replayed = messages
    for event in events:
        if isinstance(event, ContextShortened):
            replayed = applied(replayed, event.edits)
    assert replayed == history.messages
    assert all(m == n for m, n in zip(view(history.messages).weights, history.weights, strict=True))


@given(histories(least=1), st.integers(1_100, 6_000))
def test_results_that_the_model_has_not_seen_are_never_cleared(messages, window):
    unseen = step(new="unseen " * 200)
    made, _ = context(says("s"), strategies=("prune", "summarise", "truncate"), window=window)
    history = History((*messages, *unseen))
    shorten(made, history, "overflow", harder=True)
    assert history.messages[-2:] == unseen
    assert isinstance(history.messages[-1].content[0], ToolResult)
