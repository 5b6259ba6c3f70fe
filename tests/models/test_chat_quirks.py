"""What servers of Chat Completions really send: `chat_stream` reads all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_openai_chat import KEY, USAGE, chunk
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import ProviderError
from halo.models.chat_stream import ChatStream
from halo.models.failures import Call
from halo.models.openai_chat import OpenAIChat
from halo.records.messages import Text, ToolCall, user
from halo.records.usage import Usage

DIGEST = "d" * 64
CALL = Call("openai", "http://127.0.0.1:1/v1", "m")


def read(*chunks):
    """Feed chunks to a stream; return its events and what it finished with."""
    stream = ChatStream(CALL, DIGEST)
    events = [event for c in chunks for event in stream.feed(c)]
    return events, stream.finish()


def calls(*deltas):
    chunks = [chunk(tool_calls=[d]) for d in deltas]
    return read(*chunks, chunk(stop="tool_calls"))[1].message.calls


def delta(name=None, arguments=None, **fields):
    return {"function": {"name": name, "arguments": arguments}, **fields}


class TestCalls:
    def test_without_ids_and_indexes(self):
        first, second = calls(
            delta("grep", '{"a": 1}', index=None, id=None), delta("glob", "{}", index=None, id=None)
        )
        assert (first.name, first.arguments, second.name) == ("grep", '{"a": 1}', "glob")
        assert first.id != second.id
        assert first.id.startswith(f"call_{DIGEST[:12]}")

    def test_pieces_without_an_index_belong_to_the_last_one(self):
        assert calls(
            delta("grep", "", id="a"), delta(None, '{"x"'), delta(None, ": 1}"), delta("glob", "{}", id="b")
        ) == (ToolCall("a", "grep", '{"x": 1}'), ToolCall("b", "glob", "{}"))

    def test_all_at_the_same_index_as_ollama_sends_them(self):
        assert calls(
            delta("w", '{"n": 1}', index=0, id="a"),
            delta("w", '{"n": 2}', index=0, id="b"),
            delta("w", '{"n": 3}', index=0, id="c"),
        ) == tuple(ToolCall(i, "w", f'{{"n": {n}}}') for n, i in enumerate("abc", 1))

    def test_all_at_the_same_index_without_ids(self):
        found = calls(delta("w", '{"n": 1}', index=0), delta("w", '{"n": 2}', index=0))
        assert [c.arguments for c in found] == ['{"n": 1}', '{"n": 2}']

    def test_a_name_that_is_repeated_in_every_delta(self):
        assert calls(delta("grep", '{"x"', index=0, id="a"), delta("grep", ": 1}", index=0, id="a")) == (
            ToolCall("a", "grep", '{"x": 1}'),
        )

    def test_an_empty_name_in_later_deltas(self):
        assert calls(delta("grep", "", index=0, id="a"), delta("", "{}", index=0)) == (
            ToolCall("a", "grep", "{}"),
        )

    def test_an_id_that_comes_late(self):
        assert calls(delta("grep", "{", index=0), delta(None, "}", index=0, id="a")) == (
            ToolCall("a", "grep", "{}"),
        )

    def test_arguments_as_an_object(self):
        assert calls(delta("f", {"city": "Köln", "n": [1]}, index=0, id="a")) == (
            ToolCall("a", "f", '{"city":"Köln","n":[1]}'),
        )

    def test_no_arguments_at_all(self):
        assert calls(delta("f", None, index=0, id="a")) == (ToolCall("a", "f", "{}"),)

    def test_duplicate_ids_are_two_calls(self):
        """The runner gives them ids of their own, which the whole history has not."""
        found = calls(
            delta("f", "{}", index=0, id="a"),
            delta("g", "{}", index=1, id="a"),
            delta("h", "{}", index=2, id="a"),
        )
        assert [c.name for c in found] == ["f", "g", "h"]

    def test_stop_is_said_after_calls(self):
        _, done = read(chunk(tool_calls=[delta("f", "{}", index=0, id="a")]), chunk(stop="stop"))
        assert done.stop_reason == "tool_calls"

    def test_a_call_that_is_cut_stays_cut(self):
        _, done = read(chunk(tool_calls=[delta("f", '{"x', index=0, id="a")]), chunk(stop="length"))
        assert done.stop_reason == "max_tokens"
        assert done.message.calls[0].arguments == '{"x'

    @given(
        st.lists(st.tuples(st.sampled_from("fgh"), st.text(max_size=6)), min_size=1, max_size=4),
        st.randoms(use_true_random=False),
    )
    def test_however_arguments_are_cut_they_come_out_whole(self, wanted, random):
        deltas = []
        for index, (name, arguments) in enumerate(wanted):
            at = random.randint(0, len(arguments))
            deltas.append(delta(name, arguments[:at], index=index, id=f"c{index}"))
            deltas.append(delta(None, arguments[at:], index=index))
        assert calls(*deltas) == tuple(
            ToolCall(f"c{n}", name, arguments or "{}") for n, (name, arguments) in enumerate(wanted)
        )


class TestFigures:
    def test_in_a_last_chunk_without_choices(self):
        _, done = read(chunk(content="x"), chunk(stop="stop"), chunk(usage=USAGE))
        assert done.usage == Usage(uncached=36, read=64, output=7)

    @pytest.mark.parametrize("choices", [[], None])
    def test_a_second_end_with_zeros_does_not_count(self, choices):
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        _, done = read(
            chunk(content="x"),
            chunk(stop="stop"),
            chunk(usage=USAGE),
            {**chunk(stop="stop"), "usage": nothing},
            {"choices": choices, "usage": nothing},
        )
        assert done.usage == Usage(uncached=36, read=64, output=7)

    def test_in_every_chunk_the_last_one_counts(self):
        figures = [{"prompt_tokens": 9, "completion_tokens": n} for n in (1, 2, 3)]
        _, done = read(*({**chunk(content="x"), "usage": f} for f in figures), chunk(stop="stop"))
        assert done.usage == Usage(uncached=9, output=3)

    def test_inside_the_choice(self):
        last = chunk(stop="stop")
        last["choices"][0]["usage"] = {"prompt_tokens": 4, "completion_tokens": 2}
        assert read(chunk(content="x"), last)[1].usage == Usage(uncached=4, output=2)

    def test_none_at_all_is_said_once(self, scripted):
        scripted.says_chat(chunk(content="x"), chunk(stop="stop"))
        scripted.says_chat(chunk(content="x"), chunk(stop="stop"))
        adapter = OpenAIChat(scripted.url + "/v1", KEY)
        first, second = (run_turn(adapter, request(user("x"))) for _ in range(2))
        assert "says nothing of tokens" in notices(first)[0]
        assert outcome(first)[1].usage == Usage()
        assert notices(second) == []


class TestWords:
    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
    def test_thoughts_under_either_name(self, field):
        events, done = read(
            chunk(**{field: "Hm. "}),
            chunk(content=None, **{field: "So."}),
            chunk(content="Yes"),
            chunk(stop="stop"),
        )
        assert thinking(events) == "Hm. So."
        assert done.message.text == "Yes"

    def test_thoughts_under_both_names_are_said_once(self):
        events, _ = read(
            chunk(reasoning_content="Hm", reasoning="Hm"), chunk(content="x"), chunk(stop="stop")
        )
        assert thinking(events) == "Hm"

    def test_content_in_parts(self):
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
        events, done = read(
            chunk(content=[thought]), chunk(content=[{"type": "text", "text": "Yes"}]), chunk(stop="stop")
        )
        assert thinking(events) == "Hm"
        assert done.message.text == "Yes"

    def test_content_null_and_empty(self):
        _, done = read(
            chunk(role="assistant", content=None),
            chunk(content=""),
            chunk(content="a", reasoning=None),
            chunk(stop="stop"),
        )
        assert done.message.content == (Text("a"),)

    def test_an_error_as_a_chunk(self, scripted):
        scripted.says_chat(
            chunk(content="Half"), {"object": "error", "message": "out of memory", "code": 500}
        )
        with pytest.raises(ProviderError, match="out of memory"):
            run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))

    def test_choices_null_and_a_comment_between(self, scripted):
        scripted.says(
            b": keep-alive\n\n",
            b'data: {"choices": null}\n\n',
            b'data: {"choices": [{"delta": {"content": "ok"}}]}\r\n\r\n',
            b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n',
        )
        text, done = outcome(run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x"))))
        assert text == "ok"
        assert done.stop_reason == "end"


class TestSize:
    def test_a_frame_of_eight_megabytes_arrives(self, scripted):
        scripted.says_chat(chunk(content="x" * 8_000_000), chunk(stop="stop"), chunk(usage=USAGE))
        text, _ = outcome(run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x"))))
        assert len(text) == 8_000_000

    def test_an_answer_without_an_end_is_broken_off(self, scripted):
        scripted.says(b"data: ", *[b"x" * 1_000_000] * 40)
        with pytest.raises(ProviderError, match="event of more than 16,777,216 bytes"):
            run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))
