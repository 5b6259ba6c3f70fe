"""Every call has an id of its own, and the same history gives the same ids."""

from hypothesis import given
from hypothesis import strategies as st
from playing import calls

from halo.records.messages import Message, Text, ToolCall
from halo.runner.calls import call_ids, fresh_ids

IDS = st.lists(st.sampled_from(["", "a", "a_2", "a_3", "b" * 40, "b" * 32 + "_2"]), max_size=6)


@given(IDS, st.sets(st.sampled_from(["a", "a_2", "call_2", "b" * 40])))
def test_ids_become_unique_and_stay_so(ids, taken):
    message = fresh_ids(calls(*ids), taken)
    found = [call.id for call in message.calls]
    assert len(set(found)) == len(ids)
    assert not set(found) & taken
    assert all(0 < len(i) <= 40 for i in found)
    assert fresh_ids(calls(*ids), taken) == message
    assert fresh_ids(message, taken) == message


@given(st.lists(st.text(min_size=1, max_size=4), unique=True))
def test_ids_that_are_unique_are_left_alone(ids):
    message = calls(*ids)
    assert fresh_ids(message, {"another one"}) == message
    assert call_ids((message, calls())) == set(ids)


def test_the_rest_of_a_message_is_left_alone():
    call = ToolCall("a", "grep", '{"pattern": "x"}')
    message = fresh_ids(Message("assistant", (Text("See."), call, call)), ())
    assert message.content == (Text("See."), call, ToolCall("a_2", "grep", '{"pattern": "x"}'))
