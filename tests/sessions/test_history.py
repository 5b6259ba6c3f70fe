"""The fold of a log: calls and results are one unit, whatever is missing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from halo.files.log import LogLine
from halo.records.events import (
    NAMES,
    Event,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from halo.records.messages import Message, Text, ToolCall, ToolResult, user
from halo.records.session_events import SessionCreated, SessionTarget
from halo.records.usage import Usage
from halo.sessions.history import LOST_RESULT, Conversation, fold
from halo.sessions.reading import Unread, read_events


def lines(*data, first=1):
    """Log lines of events in order; None is a damaged line."""
    made = []
    for seq, item in enumerate(data, first):
        if item is None:
            made.append(LogLine(seq, None, "damaged"))
            continue
        raw = msgspec.Raw(msgspec.json.encode(item))
        event = Event(1, seq, "2026-11-30T10:00:00.000Z", NAMES[type(item)], 1, raw)
        made.append(LogLine(seq, msgspec.json.encode(event), None))
    return made


def calls(*ids):
    return Message("assistant", tuple(ToolCall(i, "grep", "{}") for i in ids))


CREATED = SessionCreated("s", SessionTarget("agent", "default"), "cli")
STARTED = TurnStarted("a", "f")


def test_a_turn_with_tools_becomes_alternating_messages():
    conversation = fold(
        lines(
            CREATED,
            STARTED,
            MessageAdded(user("look")),
            MessageAdded(calls("1", "2")),
            ToolResultAdded(ToolResult("2", "two"), "grep"),
            ToolResultAdded(ToolResult("1", "one"), "grep"),
            MessageAdded(Message("assistant", (Text("done"),))),
            UsageReported("local", "m", Usage(uncached=1, output=2)),
            UsageReported("local", "m", Usage(read=3)),
            TurnEnded("done"),
        )
    )
    history = conversation.history()
    assert [m.role for m in history] == ["user", "assistant", "user", "assistant"]
    assert [r.call_id for r in history[2].content] == ["2", "1"]
    assert conversation.usage == Usage(uncached=1, read=3, output=2)
    assert not conversation.open_turn


def test_a_call_whose_result_is_lost_is_answered():
    history = fold(
        lines(CREATED, STARTED, MessageAdded(calls("1")), None, MessageAdded(user("go on")))
    ).history()
    assert history[1].content == (ToolResult("1", LOST_RESULT, is_error=True),)


def test_a_result_whose_call_is_lost_is_left_out():
    result = ToolResultAdded(ToolResult("1", "one"), "grep")
    history = fold(lines(CREATED, STARTED, None, result, MessageAdded(user("go on")))).history()
    assert history == (user("go on"),)


def test_events_of_a_newer_version_count_but_change_nothing():
    newer = Event(1, 2, "2026-11-30T10:00:00.000Z", "hologram", 1, msgspec.Raw(b'{"x":1}'))
    conversation = fold([*lines(CREATED), LogLine(2, msgspec.json.encode(newer), None)])
    assert conversation.seq == 2
    assert conversation.damaged == []
    assert conversation.history() == ()


STEPS = st.lists(
    st.one_of(
        st.builds(lambda t: MessageAdded(user(t)), st.text(max_size=5)),
        st.builds(
            lambda ids: MessageAdded(calls(*ids)),
            st.lists(st.sampled_from(["a", "b", "a_2", ""]), min_size=1),
        ),
        st.builds(lambda i: ToolResultAdded(ToolResult(i, "r"), "grep"), st.sampled_from(["a", "b", "a_2"])),
        st.just(TurnEnded("done")),
        st.just(STARTED),
        st.none(),
    ),
    max_size=25,
)


@given(STEPS)
def test_calls_and_results_are_never_parted(steps):
    """Any log, with any lines lost: each call has exactly one result, in the very next message."""
    history = fold(lines(*steps)).history()
    for i, message in enumerate(history):
        wanted = sorted(call.id for call in message.calls)
        if wanted:
            assert len(set(wanted)) == len(wanted)
            assert sorted(r.call_id for r in history[i + 1].content) == wanted
        results = [b.call_id for b in message.content if isinstance(b, ToolResult)]
        if results:
            assert sorted(results) == sorted(c.id for c in history[i - 1].calls)


@given(STEPS)
def test_asking_for_the_history_changes_nothing(steps):
    """Asked after every event or only at the end: the conversation is the same, and calls stay open."""
    asked, silent = Conversation(), Conversation()
    for found in read_events(lines(*steps), bytes):
        for conversation in (asked, silent):
            (conversation.miss if isinstance(found, Unread) else conversation.add)(found)
        assert asked.history() == asked.history()
    assert told(asked) == told(silent)


def told(conversation):
    return {**vars(conversation), "standing": vars(conversation.standing)}


def stamped(*events):
    """Log lines of (second, event)."""
    made = []
    for seq, (second, data) in enumerate(events, 1):
        stamp = f"2026-11-30T10:00:{second:02}.000Z"
        raw = msgspec.Raw(msgspec.json.encode(data))
        event = Event(1, seq, stamp, NAMES[type(data)], 1, raw)
        made.append(LogLine(seq, msgspec.json.encode(event), None))
    return made


def test_the_days_until_a_dead_turn_is_mended_are_not_its_time():
    """A budget in seconds would be used up by a crash, with everything in the session."""
    died = [(0, STARTED), (2, MessageAdded(user("look"))), (5, MessageAdded(calls("1")))]
    later = 30
    result = ToolResultAdded(ToolResult("1", "interrupted", is_error=True), "grep", mended=True)
    mended = [(later, result), (later, TurnEnded("interrupted", mended=True))]
    assert fold(stamped(*died, *mended)).seconds == 5
    assert fold(stamped(*died, (later, TurnEnded("interrupted")))).seconds == 30


def test_figures_of_a_summary_that_was_not_used_are_not_those_of_the_history():
    asked = [CREATED, STARTED, MessageAdded(user("look")), MessageAdded(calls("1"))]
    first = UsageReported("p", "m", Usage(uncached=100, output=10))
    result = ToolResultAdded(ToolResult("1", "one"), "grep")
    summary = UsageReported("p", "m", Usage(uncached=7, output=3))
    without = fold(lines(*asked, first, result)).record("a")
    assert fold(lines(*asked, first, result, summary)).record("a").tokens(0) == without.tokens(0)
