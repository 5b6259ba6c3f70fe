"""Histories from elsewhere are mended once and for good."""

from histories import histories, paired, says, step
from hypothesis import given
from hypothesis import strategies as st

from halo.records.events import Repaired
from halo.records.messages import Image, Message, Text, Thinking, ToolCall, ToolResult, user
from halo.runner.mending import NO_RESULT, mend


def calls(*ids):
    return Message("assistant", tuple(ToolCall(i, "grep", "{}") for i in ids))


def results(*ids):
    return Message("user", tuple(ToolResult(i, f"result of {i}") for i in ids))


def kinds(repairs):
    return [(r.kind, r.call_id) for r in repairs]


@given(histories())
def test_a_history_of_halos_own_is_left_alone(messages):
    whole = tuple(m for m in messages if m.content != (Text(""),))
    assert mend(whole) == (whole, ())


def test_a_call_without_a_result_gets_one_that_says_so():
    mended, repairs = mend((user("look"), calls("a", "b"), results("b"), says("done")))
    assert mended[2].content == (ToolResult("a", NO_RESULT, is_error=True), ToolResult("b", "result of b"))
    assert repairs == (Repaired("orphan", "a", "grep", note="it had no result"),)


def test_calls_at_the_end_are_answered_too():
    mended, _ = mend((user("look"), calls("a")))
    assert mended[-1] == Message("user", (ToolResult("a", NO_RESULT, is_error=True),))


def test_a_result_without_a_call_is_left_out():
    mended, repairs = mend((results("z"), user("look"), calls("a"), results("a", "y"), says("done")))
    assert mended == (user("look"), calls("a"), results("a"), says("done"))
    assert kinds(repairs) == [("orphan", "z"), ("empty", ""), ("orphan", "y")]


def test_a_second_result_for_a_call_is_left_out():
    again = Message("user", (ToolResult("a", "again"),))
    mended, repairs = mend((user("look"), calls("a"), results("a"), again))
    assert mended == (user("look"), calls("a"), results("a"))
    assert kinds(repairs) == [("orphan", "a")]


def test_results_in_several_messages_are_joined_in_the_order_of_the_calls():
    mended, repairs = mend((user("look"), calls("a", "b", "c"), results("c"), results("a"), results("b")))
    assert mended == (user("look"), calls("a", "b", "c"), results("a", "b", "c"))
    assert kinds(repairs) == [("order", "a")]


def test_what_was_said_between_a_call_and_its_results_comes_after_them():
    mended, _ = mend((user("look"), calls("a", "b"), user("quick!"), results("a", "b"), says("done")))
    assert mended == (user("look"), calls("a", "b"), results("a", "b"), user("quick!"), says("done"))


def test_words_in_a_message_with_results_follow_as_their_own():
    mixed = Message("user", (*results("a").content, Text("and this?")))
    mended, _ = mend((user("look"), calls("a"), mixed))
    assert mended == (user("look"), calls("a"), results("a"), user("and this?"))


def test_repeated_ids_are_made_fresh_and_keep_their_results():
    messages = (user("look"), calls("0", "0"), results("0", "0"), says("."), calls("0"), results("0"))
    mended, repairs = mend(messages)
    ids = [call.id for m in mended for call in m.calls]
    assert ids == ["0", "0_2", "0_3"]
    assert [b.call_id for m in mended for b in m.content if isinstance(b, ToolResult)] == ids
    assert [(r.kind, r.call_id, r.before) for r in repairs] == [("id", "0_2", "0"), ("id", "0_3", "0")]


def test_empty_messages_are_dropped_and_thoughts_are_not_empty():
    thought = Message("assistant", (Thinking("hm"),))
    mended, repairs = mend((user(""), Message("user", ()), user("look"), thought, says("")))
    assert mended == (user("look"), thought)
    assert [r.kind for r in repairs] == ["empty"] * 3


def test_blocks_in_the_wrong_role_are_left_out():
    asked = Message("user", (Text("look"), ToolCall("a", "grep", "{}")))
    told = Message("assistant", (Text("done"), ToolResult("a", "found")))
    mended, repairs = mend((asked, told))
    assert mended == (user("look"), says("done"))
    assert kinds(repairs) == [("orphan", "a"), ("orphan", "a")]


IDS = st.sampled_from(["a", "b", "a_2", ""])
BLOCKS = st.one_of(
    st.builds(Text, st.sampled_from(["", "x"])),
    st.builds(ToolCall, IDS, st.just("grep"), st.just("{}")),
    st.builds(ToolResult, IDS, st.sampled_from(["one", "two"])),
    st.just(Image("image/png", "aGk=")),
)
ANYTHING = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4).map(tuple)),
    max_size=8,
).map(tuple)


@given(ANYTHING)
def test_whatever_comes_goes_out_whole_and_stays_so(messages):
    mended, repairs = mend(messages)
    assert paired(mended)
    ids = [call.id for m in mended for call in m.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    assert all(m.content for m in mended)
    assert mend(mended) == (mended, ())
    assert bool(repairs) == (mended != messages)


@given(ANYTHING)
def test_no_word_and_no_result_of_a_call_is_lost(messages):
    mended, repairs = mend(messages)

    def said(history, kind):
        return sorted(b.text for m in history for b in m.content if isinstance(b, kind) and b.text)

    assert said(mended, Text) == said(messages, Text)
    gone = sum(r.kind == "orphan" and "left out" in r.note and not r.before for r in repairs)
    added = sum(r.note == "it had no result" for r in repairs)
    assert len(said(mended, ToolResult)) == len(said(messages, ToolResult)) - gone + added


def test_a_step_of_the_runner_is_one_unit():
    assert mend((user("x"), *step(a="1", b="2"))) == ((user("x"), *step(a="1", b="2")), ())
