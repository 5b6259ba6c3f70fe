"""Shortened histories in the log: replayed byte for byte, wherever the log ends."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from histories import histories, paired, says, step, talk
from hypothesis import given
from hypothesis import strategies as st
from playing import Player
from test_history import CREATED, STARTED, lines

from halo.models.adapter import Notice
from halo.models.prefix import Prefix
from halo.records.artifacts import Binding, Runtime
from halo.records.events import (
    ContextShortened,
    Edit,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    UsageReported,
)
from halo.records.messages import Message, ToolResult, user
from halo.records.usage import Usage
from halo.runner.context.context import Context
from halo.runner.record import History
from halo.sessions.derived import render
from halo.sessions.history import LOST_RESULT, fold
from halo.sessions.reading import read_events

STRATEGIES = st.lists(st.sampled_from(["prune", "summarise", "truncate"]), unique=True).map(tuple)
REASONS = st.sampled_from(["fill", "overflow", "cap"])


class Runner:
    """Does what a turn does to a history, and writes the log beside it.

    `expected` holds what the history is worth after each event: calls without a result have lost it.
    """

    def __init__(self):
        self.history = History()
        self.log = [CREATED, STARTED]
        self.expected = [(), ()]

    def take(self, message):
        before, results = self.history.messages, [b for b in message.content if isinstance(b, ToolResult)]
        self.history.extend((message,))
        if not results:
            self._record(MessageAdded(message), (*before, message), [c.id for c in message.calls], [])
        for number, result in enumerate(results, 1):
            open_calls = [r.call_id for r in results[number:]]
            self._record(ToolResultAdded(result, "grep"), before, open_calls, results[:number])

    def _record(self, event, messages, open_calls, results):
        lost = [ToolResult(call, LOST_RESULT, is_error=True) for call in open_calls]
        answers = (Message("user", (*results, *lost)),) if results or lost else ()
        self.log.append(event)
        self.expected.append(messages + answers)

    def shorten(self, strategies, reason="fill", *, harder=False):
        runtime = Runtime(
            Binding("openai", "m", max_tokens=500),
            context_tokens=2_000,
            strategies=strategies,
            max_messages=10,
        )
        made = Context(runtime, Prefix("", ""), Player(says("the gist")))

        async def go():
            async with aclosing(made.shorten(self.history, reason, harder=harder)) as events:
                async for event in events:
                    if not isinstance(event, Notice):
                        shorter = isinstance(event, ContextShortened)
                        self.log.append(event)
                        self.expected.append(self.history.messages if shorter else self.expected[-1])

        asyncio.run(go())


@given(histories(least=1), STRATEGIES, st.data())
def test_the_log_gives_the_history_of_the_runner_wherever_it_ends(messages, strategies, data):
    runner = Runner()
    for message in messages:
        runner.take(message)
        if not message.calls and data.draw(st.integers(0, 3)) == 0:
            runner.shorten(strategies, data.draw(REASONS), harder=data.draw(st.booleans()))
    for end in range(len(runner.log) + 1):
        conversation = fold(lines(*runner.log[:end]))
        assert conversation.history() == (runner.expected[end - 1] if end else ())
        assert conversation.damaged == []
    assert msgspec.json.encode(conversation.history()) == msgspec.json.encode(runner.history.messages)


@given(histories(least=2), STRATEGIES, st.data())
def test_a_log_that_lost_lines_before_a_shortening_never_parts_calls_and_results(messages, strategies, data):
    runner = Runner()
    for number, message in enumerate(messages):
        runner.take(message)
        if not message.calls and number % 4 == 3:
            runner.shorten(strategies, "overflow", harder=True)
    lost = data.draw(st.sets(st.integers(2, len(runner.log) - 1), max_size=4))
    conversation = fold(lines(*(None if n in lost else event for n, event in enumerate(runner.log))))
    assert all(
        sorted(c.id for c in m.calls)
        == sorted(b.call_id for b in behind.content if isinstance(b, ToolResult))
        for m, behind in zip(conversation.history(), [*conversation.history()[1:], user("")], strict=False)
    )
    assert len(conversation.damaged) >= len(lost)


@pytest.mark.parametrize(
    "edits",
    [
        (Edit(0, 9, ()),),
        (Edit(-1, 1, ()),),
        (Edit(3, 2, ()),),
        (Edit(0, 2, ()),),  # the call goes, its results stay
        (Edit(2, 3, ()),),  # and the other way round
        (Edit(0, 1, (user("fits"),)), Edit(0, 7, ())),
    ],
)
def test_edits_that_do_not_fit_are_told_and_change_nothing(edits):
    messages = (user("look"), *step(a="found"), says("done"))
    log = [CREATED, STARTED, *_said(messages), ContextShortened("truncate", edits), MessageAdded(user("on"))]
    conversation = fold(lines(*log))
    assert conversation.history() == (*messages, user("on"))
    assert len(conversation.damaged) == 1
    assert conversation.damaged[0].startswith("event 7: the shortened history does not fit: ")


def test_edits_are_not_made_one_message_off():
    """A lost line moves all that comes after it: the edits would still fit, and take out what was not meant."""
    said = [user("a"), says("1"), user("b"), says("2"), user("c"), says("3")]
    gist = ContextShortened("truncate", (Edit(0, 4, (user("a and b"),)),), messages_before=6)
    sound = [CREATED, STARTED, *_said(said), gist, MessageAdded(user("on"))]
    whole = fold(lines(*sound))
    assert [m.text for m in whole.history()] == ["a and b", "c", "3", "on"]
    assert whole.damaged == []
    lost = fold(lines(*sound[:3], None, *sound[4:]))
    assert [m.text for m in lost.history()] == ["a", "b", "2", "c", "3", "on"]
    assert lost.damaged[-1] == (
        "event 9: the shortened history does not fit: it was made of 6 messages, and 5 are left"
    )


def test_a_log_of_an_older_version_does_not_say_how_many_they_were_and_is_read_as_ever():
    said = [user("a"), says("1"), user("b"), says("2")]
    gist = ContextShortened("truncate", (Edit(0, 2, (user("[a]"),)),))
    assert b"messages_before" not in msgspec.json.encode(gist)
    conversation = fold(lines(CREATED, STARTED, *_said(said), gist))
    assert [m.text for m in conversation.history()] == ["[a]", "b", "2"]
    assert conversation.damaged == []


@given(histories(least=4), st.data())
def test_after_a_lost_message_no_shortening_is_made_of_the_wrong_ones(messages, data):
    runner = Runner()
    for message in messages:
        runner.take(message)
    runner.shorten(("truncate",), "overflow", harder=True)
    shortenings = sum(isinstance(event, ContextShortened) for event in runner.log)
    places = [n for n, event in enumerate(runner.log) if isinstance(event, MessageAdded)]
    lost = data.draw(st.sampled_from(places))
    kept = [None if n == lost else event for n, event in enumerate(runner.log)]
    conversation = fold(lines(*kept))
    unshortened = fold(lines(*(e for e in kept if not isinstance(e, ContextShortened))))
    assert conversation.history() == unshortened.history()
    assert len(conversation.damaged) == 1 + shortenings


def test_a_session_that_was_damaged_is_shortened_again_and_goes_on():
    """What a turn records afterwards is about the history as it was read, and fits it."""
    runner = Runner()
    for message in talk(20):
        runner.take(message)
    runner.shorten(("truncate",))
    broken = [*runner.log[:2], *[None] * 30, *runner.log[32:]]
    read = fold(lines(*broken))
    assert len(read.damaged) == 31
    again = History(read.history())
    again.apply(edits := (Edit(0, 4, (user("[left out]"),)),))
    whole = fold(lines(*broken, ContextShortened("truncate", edits)))
    assert whole.history() == again.messages


def test_calls_that_are_open_when_a_history_is_shortened_are_closed_first():
    messages = (user("look"), step(a="found")[0])
    edit = Edit(0, 3, (user("[left out]"),))
    conversation = fold(lines(CREATED, STARTED, *_said(messages), ContextShortened("cap", (edit,))))
    assert conversation.history() == (user("[left out]"),)
    late = ToolResultAdded(ToolResult("a", "late"), "grep")
    after = fold(lines(CREATED, STARTED, *_said(messages), ContextShortened("cap", (edit,)), late))
    assert after.history() == (user("[left out]"),)


def test_after_a_shortening_nothing_is_expected_of_the_cache():
    used = UsageReported("openai", "m", Usage(uncached=9))
    assert fold(lines(CREATED, STARTED, used)).last_call is not None
    assert fold(lines(CREATED, STARTED, used, ContextShortened("prune", ()))).last_call is None


def test_the_transcript_tells_what_happened_to_the_history():
    told = [
        ContextShortened("summarise", (), 12_000, 4_000, "fill"),
        Repaired("storm", "c", "grep", note="the same call was made 3 times before"),
        Repaired("orphan", "d"),
        TurnEnded("done"),
    ]
    assert [render(event) for event in read_events(lines(*told), bytes)] == [
        "\n*the model's history was shortened here (summarise): about 12,000 tokens to 4,000*\n",
        "\n*repaired (storm) `grep`: the same call was made 3 times before*\n",
        "\n*repaired (orphan)*\n",
        "",
    ]


def _said(messages):
    runner = Runner()
    for message in messages:
        runner.take(message)
    return runner.log[2:]


def test_the_runner_of_these_tests_leaves_pairs_whole():
    runner = Runner()
    for message in (user("look"), *step(a="1", b="2"), says("done")):
        runner.take(message)
    assert all(paired(messages) for messages in runner.expected)
