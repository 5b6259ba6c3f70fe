"""Provider `openai` with `api: responses`: against the real engine and against a scripted server."""

import asyncio
import json
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import HaloError, ProviderError
from halo.models.adapter import TextDelta
from halo.models.failures import Call
from halo.models.openai_responses import OpenAIResponses
from halo.models.opening import open_adapter
from halo.models.rendering import Rendering
from halo.models.responses_stream import ResponseStream
from halo.models.responses_wire import origin, renderer
from halo.records.artifacts import Binding, Capabilities, Reasoning
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

KEY = "sk-very-secret-0123456789"
READ = LISTABLE_TOOLS["file_read"]
HERE = "http://127.0.0.1:1/v1"
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 107,
}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Two files."}],
    "encrypted_content": "b3BhcXVl",
    "status": "completed",
}


def ev(kind, **fields):
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def message(text="", phase=None, **fields):
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": content,
        "phase": phase,
        **fields,
    }


def a_call(arguments="", call_id="call_a", name="file_read", **fields):
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **fields,
    }


def item(index, whole, *deltas):
    """Say an item as the provider does: announced empty, then deltas, then whole."""
    empty = {**whole, "content": [], "arguments": "", "summary": [], "encrypted_content": None}
    return [
        ev("output_item.added", output_index=index, item=empty),
        *({**d, "output_index": index} for d in deltas),
        ev("output_item.done", output_index=index, item=whole),
    ]


def text_of(words):
    return ev("output_text.delta", content_index=0, delta=words)


def done(kind="completed", usage=USAGE, **fields):
    response = {"id": "resp_1", "model": "m-2026", "status": kind, "usage": usage, "incomplete_details": None}
    return ev(kind, response={**response, **fields})


def said(scripted, *events, cut=False):
    chunks = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
    headers = {"content-type": "text/event-stream"}
    if cut:
        headers["content-length"] = str(sum(map(len, chunks)) + 1000)
    scripted.says(*chunks, headers=headers)


def adapter(scripted, model="m", **options):
    return OpenAIResponses(scripted.url + "/v1", KEY, model, **options)


def asked(*messages, **fields):
    return request(*messages, **{"api": "responses", "seed": None, **fields})


def answered(scripted, *events, turn=None, **options):
    said(scripted, *events)
    return run_turn(adapter(scripted, **options), turn or asked(user("?")))


def read(*events):
    """Feed events to a stream; return what they add and what it finished with."""
    stream = ResponseStream(Call("openai", HERE, "m"), "d" * 64, 24, origin("openai", HERE, "m"))
    found = [neutral for event in events for neutral in stream.feed(event)]
    return found, stream.finish()


def items_of(*history, model="m", endpoint=HERE):
    return Rendering(renderer("openai", endpoint, model)).of(history).messages


class TestRealEngine:
    def test_a_streamed_turn_with_cached_tokens(self, llama_server):
        adapter = OpenAIResponses(llama_server.url + "/v1", llama_server.key, "m")
        system = "You are a helpful assistant for a lighthouse. " + "Answer in one short sentence. " * 12

        async def two():
            try:
                turns = []
                for question in ("What is the capital of France?", "What is 2 + 2?"):
                    turn = asked(user(question), system=system, static=system)
                    async with aclosing(adapter.stream(turn)) as events:
                        turns.append([e async for e in events])
                return turns
            finally:
                await adapter.close()

        first, second = asyncio.run(two())
        text, whole = outcome(first)
        assert "Paris" in text
        assert whole.message == Message("assistant", (Text(text),))
        assert whole.stop_reason == "end"
        assert whole.model == "smollm2"
        assert whole.usage.output > 0
        _, again = outcome(second)
        assert again.usage.read > 60
        assert again.usage.prompt > again.usage.read

    def test_a_reply_that_it_cuts_counts_as_cut(self, llama_server):
        """It calls such a reply complete."""
        turn = asked(user("Tell me a long story about a ship."), max_tokens=5)
        _, whole = outcome(run_turn(OpenAIResponses(llama_server.url + "/v1", llama_server.key, "m"), turn))
        assert whole.usage.output == 5
        assert whole.stop_reason == "max_tokens"

    def test_a_conversation_with_calls_goes_out_and_is_counted(self, llama_server):
        history = (
            user("Look."),
            Message("assistant", (Text("I do."), ToolCall("c1", "file_read", '{"path": "a"}'))),
            Message("user", (ToolResult("c1", "sun", is_error=True), Text("Well?"))),
        )
        turn = asked(*history, system="Be brief.", tools=[READ], thinking=Reasoning(effort="low"))
        turn = msgspec.structs.replace(turn, tool_choice="none")
        adapter = OpenAIResponses(llama_server.url + "/v1", llama_server.key, "m")

        async def both():
            try:
                async with aclosing(adapter.stream(turn)) as events:
                    found = [e async for e in events]
                return found, await adapter.count(turn)
            finally:
                await adapter.close()

        found, count = asyncio.run(both())
        assert outcome(found)[1].usage.prompt == count > 20


class TestReply:
    def test_thoughts_words_and_parallel_calls(self, scripted):
        summary = [
            ev("reasoning_summary_text.delta", summary_index=0, delta="Two "),
            ev("reasoning_summary_text.delta", summary_index=0, delta="files."),
        ]
        pieces = [ev("function_call_arguments.delta", delta=d) for d in ('{"path": ', '"a.md"}')]
        events = answered(
            scripted,
            ev("created", response={"id": "resp_1", "model": "m-2026", "status": "in_progress"}),
            *item(0, THOUGHT, *summary),
            *item(1, message("Looking", phase="commentary"), text_of("Look"), text_of("ing")),
            *item(2, a_call('{"path": "a.md"}'), *pieces),
            *item(3, a_call('{"pattern": "x"}', "call_b", "grep")),
            done(),
            turn=asked(user("?"), system="S", tools=[READ], top_p=0.5, thinking=Reasoning(effort="low")),
        )
        text, whole = outcome(events)
        assert text == "Looking"
        assert thinking(events) == "Two files."
        mark = {"endpoint": scripted.url + "/v1", "model": "m"}
        back = {k: THOUGHT[k] for k in ("id", "summary", "encrypted_content")}
        assert whole.message.content == (
            Thinking("Two files.", ProviderData("openai", {**mark, "item": back})),
            Text("Looking", ProviderData("openai", {"phase": "commentary"})),
            ToolCall("call_a", "file_read", '{"path": "a.md"}'),
            ToolCall("call_b", "grep", '{"pattern": "x"}'),
        )
        assert whole.stop_reason == "tool_calls"
        assert whole.usage == Usage(uncached=16, written=20, read=64, output=7)
        assert whole.model == "m-2026"
        (sent,) = scripted.requests
        assert sent.path == "/v1/responses"
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert KEY.encode() not in sent.body
        assert whole.body == sent.json
        assert sent.json == {
            "model": "m",
            "input": [{"role": "user", "content": "?"}],
            "instructions": "S",
            "stream": True,
            "store": False,
            "max_output_tokens": 24,
            "temperature": 0.0,
            "top_p": 0.5,
            "reasoning": {"effort": "low", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
            "tools": [
                {
                    "type": "function",
                    "name": READ.name,
                    "description": READ.description,
                    "parameters": READ.parameters,
                    "strict": False,
                }
            ],
        }
        # What came goes back, the thought before what it led to.
        results = Message("user", (ToolResult("call_a", "A"), ToolResult("call_b", "no", is_error=True)))
        again = items_of(user("?"), whole.message, results, endpoint=scripted.url + "/v1")
        assert [i.get("type", i.get("role")) for i in again] == [
            "user", "reasoning", "message", "function_call", "function_call", "function_call_output", "function_call_output",
        ]  # fmt: skip
        assert again[1] == {"type": "reasoning", **back}
        assert again[2] == {
            "type": "message",
            "role": "assistant",
            "phase": "commentary",
            "content": "Looking",
        }
        assert again[6] == {"type": "function_call_output", "call_id": "call_b", "output": "Error: no"}

    def test_paragraphs_of_a_summary(self):
        parts = [ev("reasoning_summary_text.delta", summary_index=n, delta=f"Part {n}.") for n in (0, 1)]
        events, _ = read(*item(0, THOUGHT, *parts), *item(1, message("x"), text_of("x")), done())
        assert thinking(events) == "Part 0.\n\nPart 1."

    def test_a_refusal(self):
        refused = message()
        refused["content"] = [{"type": "refusal", "refusal": "I will not."}]
        events, whole = read(*item(0, refused, ev("refusal.delta", delta="I will not.")), done())
        assert outcome([*events, whole])[0] == whole.message.text == "I will not."
        assert whole.stop_reason == "refusal"

    @pytest.mark.parametrize(
        ("reason", "stop"),
        [("max_output_tokens", "max_tokens"), ("content_filter", "refusal"), ("steered", "end")],
    )
    def test_a_reply_that_is_incomplete(self, reason, stop):
        end = done("incomplete", incomplete_details={"reason": reason})
        _, whole = read(*item(0, message("Half"), text_of("Half")), end)
        assert whole.stop_reason == stop
        assert whole.message.text == "Half"

    def test_a_call_that_is_cut_stays_cut(self):
        announced, delta, _ = item(0, a_call(), ev("function_call_arguments.delta", delta='{"pa'))
        _, whole = read(
            announced, delta, done("incomplete", incomplete_details={"reason": "max_output_tokens"})
        )
        assert whole.message.calls == (ToolCall("call_a", "file_read", '{"pa'),)
        assert whole.stop_reason == "max_tokens"

    def test_duplicate_ids_are_two_calls_and_a_missing_one_is_made(self):
        _, whole = read(*item(0, a_call("{}")), *item(1, a_call("{}", name="grep")), done())
        assert [c.name for c in whole.message.calls] == ["file_read", "grep"]
        _, whole = read(*item(0, a_call("{}", None)), *item(1, a_call("{}", None)), done())
        assert len({c.id for c in whole.message.calls if c.id.startswith("call_")}) == 2

    def test_an_item_that_is_told_twice_is_one(self):
        _, whole = read(*item(0, message("Hi"), text_of("Hi")), *item(0, message("Hi"))[2:], done())
        assert whole.message.content == (Text("Hi"),)

    def test_unknown_events_are_passed_over_and_unknown_items_told(self):
        events, whole = read(
            ev("queued"), ev("something.new", output_index=7, delta="?"), {"type": "keepalive"},
            *item(0, {"type": "weather_call", "id": "w_1"}),
            *item(1, message("Hi"), text_of("Hi"), ev("output_text.annotation.added", annotation={})),
            done(),
        )  # fmt: skip
        assert whole.message.content == (Text("Hi"),)
        assert "'weather_call'" in notices(events)[0]

    def test_what_no_delta_said_is_said_in_the_end(self):
        events, whole = read(*item(0, message("Hello"), text_of("Hel")), done())
        assert outcome([*events, whole])[0] == "Hello"
        events, whole = read(done(output=[THOUGHT, message("All at once"), a_call({"path": "a"})]))
        assert outcome([*events, whole])[0] == "All at once"
        assert whole.message.calls[0].arguments == '{"path":"a"}'

    def test_items_without_indexes_as_llama_cpp_sends_them(self):
        events = [
            ev("output_item.added", item=message()),
            ev("output_text.delta", item_id="msg_1", delta="Hi"),
            ev("output_item.done", item=message("Hi")),
            ev("output_item.added", item=a_call()),
            ev("function_call_arguments.delta", item_id="fc_1", delta="{}"),
            ev("output_item.done", item=a_call("{}")),
            {"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 2}}},
        ]
        _, whole = read(*events)
        assert whole.message.content == (Text("Hi"), ToolCall("call_a", "file_read", "{}"))
        assert whole.usage == Usage(uncached=5, output=2)

    @given(st.lists(st.text(min_size=1, max_size=5), max_size=6))
    def test_the_deltas_together_are_the_text(self, words):
        whole_text = "".join(words)
        events, whole = read(*item(0, message(whole_text), *map(text_of, words)), done())
        assert outcome([*events, whole])[0] == whole.message.text == whole_text


class TestHistory:
    def thought(self, model="m", endpoint=HERE, provider="openai"):
        back = {"id": "rs_1", "summary": [], "encrypted_content": "x"}
        return Thinking(
            "hm", ProviderData(provider, {**origin(provider, endpoint, model).data, "item": back})
        )

    def kinds(self, *blocks, **to):
        return [i["type"] for i in items_of(user("?"), Message("assistant", blocks), **to)[1:]]

    @pytest.mark.parametrize(("to", "goes"), [
        ({}, True),
        ({"model": "m-2026-01-31"}, True),
        ({"model": "m-mini"}, False),
        ({"endpoint": "https://elsewhere.example/v1"}, False),
    ])  # fmt: skip
    def test_thoughts_go_back_to_where_they_came_from(self, to, goes):
        found = self.kinds(self.thought(), ToolCall("a", "f", "{}"), **to)
        assert found == (["reasoning", "function_call"] if goes else ["function_call"])

    def test_thoughts_of_others_stay_home(self):
        others = (
            self.thought(provider="anthropic"),
            Thinking("x"),
            Thinking("y", ProviderData("openai", {})),
        )
        assert self.kinds(*others, ToolCall("a", "f", "{}")) == ["function_call"]

    def test_a_thought_that_led_to_nothing_is_left_out(self):
        assert self.kinds(Text("a"), self.thought(), Text("")) == ["message"]
        assert self.kinds(self.thought(), self.thought()) == []

    def test_the_order_is_kept(self):
        blocks = (self.thought(), ToolCall("a", "f", "{}"), self.thought(), Text("b"))
        assert self.kinds(*blocks) == ["reasoning", "function_call", "reasoning", "message"]

    def test_pictures_stay_with_the_result_that_they_belong_to(self):
        picture = Image("image/png", "AAAA")
        results = Message("user", (Text("and?"), ToolResult("a", "seen", images=(picture,)), picture))
        call = Message("assistant", (ToolCall("a", "view_image", "{}"),))
        _, _, result, said = items_of(user("?"), call, results)
        url = "data:image/png;base64,AAAA"
        shown = {"type": "input_image", "detail": "auto", "image_url": url}
        assert result["output"] == [{"type": "input_text", "text": "seen"}, shown]
        assert said["content"] == [{"type": "input_text", "text": "and?"}, shown]

    def test_no_item_has_an_id_by_which_a_server_would_look_for_it(self):
        history = (
            user("?"),
            Message("assistant", (Text("a"), ToolCall("c", "f", "{}"))),
            Message("user", (ToolResult("c", "r"),)),
        )
        assert not [i for i in items_of(*history) if "id" in i]


class TestWhatIsSent:
    def test_only_models_that_think_are_asked_for_their_thoughts(self, scripted):
        """Others refuse to be asked."""
        end = [*item(0, message("ok"), text_of("ok")), done()]
        answered(scripted, *end)
        answered(scripted, *end, capabilities=Capabilities(thinking=True))
        answered(scripted, *end, turn=asked(user("?"), thinking=Reasoning(effort="none")))
        first, second, third = (r.json for r in scripted.requests)
        assert "include" not in first
        assert "reasoning" not in first
        assert second["include"] == ["reasoning.encrypted_content"]
        assert "reasoning" not in second
        assert third["reasoning"] == {"effort": "none"}

    def test_a_schema_for_the_reply(self, scripted):
        schema = {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        }
        answered(
            scripted, *item(0, message("{}"), text_of("{}")), done(), turn=asked(user("?"), schema=schema)
        )
        assert scripted.requests[0].json["text"] == {
            "format": {"type": "json_schema", "name": "reply", "schema": schema, "strict": True}
        }

    def test_what_it_has_no_word_for_is_said_once(self, scripted):
        turn = asked(user("?"), seed=1, top_k=2, thinking=Reasoning(budget_tokens=9))
        said(scripted, *item(0, message("ok"), text_of("ok")), done())
        said(scripted, *item(0, message("ok"), text_of("ok")), done())
        one = adapter(scripted)
        assert [n.split("`")[1] for n in notices(run_turn(one, turn))] == [
            "top_k",
            "seed",
            "thinking.budget_tokens",
        ]
        assert notices(run_turn(one, turn)) == []
        assert not {"seed", "top_k"} & set(scripted.requests[0].json)

    def test_the_binding_chooses_it(self):
        opened = open_adapter(
            Binding("openai", "m", "http://127.0.0.1:1/", api="responses"),
            tool_mode="native", key=None, trusted=False, context_tokens=9, cache="/", base_dir="/",
        )  # fmt: skip
        assert isinstance(opened, OpenAIResponses)
        assert opened.endpoint == HERE

    def test_the_count_is_of_what_would_be_sent(self, scripted):
        scripted.says(b'{"input_tokens": 88}', headers={"content-type": "application/json"})
        turn = asked(user("."), system="S", tools=[READ])

        async def count():
            one = adapter(scripted)
            try:
                return await one.count(turn)
            finally:
                await one.close()

        assert asyncio.run(count()) == 88
        (sent,) = scripted.requests
        assert sent.path == "/v1/responses/input_tokens"
        assert set(sent.json) == {"model", "instructions", "input", "tools"}


class TestWhatGoesWrong:
    def fails(self, scripted, turn=None):
        with pytest.raises(ProviderError) as caught:
            run_turn(adapter(scripted), turn or asked(user("x")))
        assert KEY not in str(caught.value)
        return caught.value

    @pytest.mark.parametrize("cut", [False, True])
    def test_a_stream_that_ends_early(self, scripted, cut):
        said(scripted, *item(0, message("Half"), text_of("Half")), cut=cut)
        error = self.fails(scripted)
        assert "broke off" in str(error)
        assert error.kind == "transient"

    @pytest.mark.parametrize(
        ("code", "text", "kind"),
        [
            ("server_error", "oops", "transient"),
            ("server_is_overloaded", "Our servers are currently overloaded.", "transient"),
            ("slow_down", "Please reduce the rate.", "transient"),
            ("rate_limit_exceeded", "slow down", "rate_limit"),
            ("invalid_prompt", f"bad {KEY}", "request"),
            ("context_length_exceeded", "too many tokens", "overflow"),
            (None, None, "transient"),
        ],
    )
    @pytest.mark.parametrize("shape", ["failed", "error"])
    def test_a_failure_inside_the_stream(self, scripted, code, text, kind, shape):
        error = {"code": code, "message": text}
        event = done("failed", error=error) if shape == "failed" else {"type": "error", **error}
        said(scripted, *item(0, message("Half"), text_of("Half")), event)
        assert self.fails(scripted).kind == kind

    @pytest.mark.parametrize(
        "event",
        [
            {"type": 5},
            {"no": "type"},
            [],
            ev("output_text.delta", output_index=3, delta="x"),
            ev("output_item.done", output_index=0, item="x"),
            ev("output_item.done", output_index=0, item={"type": "function_call", "call_id": "a"}),
        ],
    )
    def test_malformed_events(self, scripted, event):
        scripted.says(
            b"data: " + json.dumps(event).encode() + b"\n\n",
            b"data: " + json.dumps(done()).encode() + b"\n\n",
        )
        error = self.fails(scripted)
        assert "cannot be read" in str(error)
        assert error.kind == "protocol"

    def test_no_json(self, scripted):
        scripted.says(b"data: {no json\n\n")
        assert "cannot be read" in str(self.fails(scripted))

    def test_no_stream_at_all(self, scripted):
        scripted.says(b"<html>login</html>", headers={"content-type": "text/html"})
        with pytest.raises(HaloError):
            run_turn(adapter(scripted), asked(user("x")))

    def test_a_refused_key_and_a_redirect(self, scripted):
        scripted.fails(401, {"error": {"message": f"bad key {KEY}"}})
        assert self.fails(scripted).kind == "auth"
        scripted.fails(307, {}, location="http://127.0.0.1:9/")
        assert "redirects" in str(self.fails(scripted))

    def test_slow_bytes_arrive_as_they_come(self, scripted):
        events = [*item(0, message("grüße"), text_of("grüße")), done()]
        raw = b"".join(b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\n\n" for e in events)
        middle = raw.index("ü".encode()) + 1
        scripted.says(raw[:middle], 0.05, raw[middle : middle + 1], 0.05, raw[middle + 1 :])
        assert outcome(run_turn(adapter(scripted), asked(user("x"))))[0] == "grüße"

    def test_a_frame_of_eight_megabytes_arrives(self, scripted):
        words = "x" * 4_000_000
        events = answered(scripted, *item(0, message(words), text_of(words)), done())
        assert outcome(events)[0] == words

    def test_an_event_without_an_end_is_broken_off(self, scripted):
        scripted.says(b"data: ", *[b"x" * 1_000_000] * 40)
        assert self.fails(scripted).kind == "protocol"

    def test_a_caller_that_breaks_off_leaves_nothing_open(self, scripted):
        raw = [b"data: " + json.dumps(e).encode() + b"\n\n" for e in item(0, message("xx"), text_of("x"))[:2]]
        scripted.says(*raw, *[b": wait\n\n", 0.05] * 10)

        async def go():
            one = adapter(scripted)
            async with aclosing(one.stream(asked(user("x")))) as events:
                async for event in events:
                    assert isinstance(event, TextDelta)
                    break
            await one.close()

        asyncio.run(go())
