"""Provider `anthropic`: the real client against the real engine and against a scripted server."""

import asyncio
from contextlib import aclosing

import pytest
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import ProviderError
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.anthropic_wire import render, system_blocks
from halo.models.rendering import Rendering
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

KEY = "sk-ant-very-secret-0123456789"
READ = LISTABLE_TOOLS["file_read"]

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-x", "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 1},
    },
}  # fmt: skip
STOP = {"type": "message_stop"}


def begin(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def rendered(*messages):
    return Rendering(render).of(messages).messages


def end(index):
    return {"type": "content_block_stop", "index": index}


def ended(reason="end_turn", output=9):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": output},
    }


def test_a_streamed_turn_on_the_real_engine_with_cached_tokens(llama_server):
    adapter = AnthropicMessages(llama_server.url, llama_server.key)
    static = "You are a helpful assistant for the harbour office. " + "Answer in one short sentence. " * 12
    system = static + "\nTime zone: UTC"

    async def two():
        try:
            turns = []
            for question in ("What is the capital of France?", "What is 3 + 3?"):
                turn = request(user(question), system=system, static=static, provider="anthropic")
                async with aclosing(adapter.stream(turn)) as events:
                    turns.append([e async for e in events])
            return turns
        finally:
            await adapter.close()

    first, second = asyncio.run(two())
    text, done = outcome(first)
    assert "Paris" in text
    assert done.message.text == text
    assert done.stop_reason == "end"
    assert done.model == "smollm2"
    assert done.usage.output > 0
    _, again = outcome(second)
    assert again.usage.read > 60
    assert again.usage.prompt > again.usage.read


def test_thinking_with_signature_and_parallel_calls(scripted):
    scripted.says_messages(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Two "),
        delta(0, "thinking_delta", thinking="files."),
        delta(0, "signature_delta", signature="c2ln"),
        end(0),
        begin(1, type="redacted_thinking", data="opaque"),
        end(1),
        begin(2, type="text", text=""),
        delta(2, "text_delta", text="Look"),
        delta(2, "text_delta", text="ing"),
        end(2),
        begin(3, type="tool_use", id="toolu_1", name="file_read", input={}),
        delta(3, "input_json_delta", partial_json='{"pa'),
        delta(3, "input_json_delta", partial_json='th": "a.md"}'),
        end(3),
        begin(4, type="tool_use", id="toolu_2", name="file_list", input={}),
        end(4),
        ended("tool_use", 42),
        STOP,
    )
    turn = request(
        user("?"), system="STATIC dynamic", static="STATIC ", tools=[READ], provider="anthropic", top_k=4
    )
    events = run_turn(AnthropicMessages(scripted.url, KEY), turn)
    text, done = outcome(events)
    assert text == "Looking"
    assert thinking(events) == "Two files."
    first, second, *rest = done.message.content
    assert first == Thinking(
        "Two files.",
        ProviderData("anthropic", {"type": "thinking", "thinking": "Two files.", "signature": "c2ln"}),
    )
    assert second == Thinking("", ProviderData("anthropic", {"type": "redacted_thinking", "data": "opaque"}))
    assert rest == [
        Text("Looking"),
        ToolCall("toolu_1", "file_read", '{"path": "a.md"}'),
        ToolCall("toolu_2", "file_list", "{}"),
    ]
    assert done.stop_reason == "tool_calls"
    assert done.usage == Usage(uncached=11, written=5, read=100, output=42)
    sent = scripted.requests[0]
    assert sent.path == "/v1/messages"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in sent.body
    body = sent.json
    assert body["system"] == [
        {"type": "text", "text": "STATIC ", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "dynamic"},
    ]
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.0, 4, 1)
    assert body["tools"][0]["input_schema"] == READ.parameters
    # What came goes back: thinking unread, results of the parallel calls together.
    results = Message(
        "user", (Text("and?"), ToolResult("toolu_1", "A"), ToolResult("toolu_2", "no", is_error=True))
    )
    again = rendered(user("?"), done.message, results)
    assert [b["type"] for b in again[1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert again[1]["content"][0]["signature"] == "c2ln"
    assert again[1]["content"][3]["input"] == {"path": "a.md"}
    assert [b["type"] for b in again[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert again[2]["content"][1]["is_error"] is True


def test_thinking_of_others_and_blank_text_stay_home():
    history = (
        user("a"),
        user("b"),
        Message("assistant", (Thinking("x", ProviderData("openai", {"k": 1})), Thinking("y"), Text(""))),
        Message("assistant", (ToolCall("c", "f", "{broken"),)),
        Message("user", (ToolResult("c", "", images=(Image("image/png", "AAAA"),)),)),
    )
    sent = rendered(*history)
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert len(sent[0]["content"]) == 2
    assert sent[1]["content"] == [
        {"type": "tool_use", "id": "c", "name": "f", "input": {"malformed_arguments": "{broken"}}
    ]
    assert [b["type"] for b in sent[2]["content"][0]["content"]] == ["image"]


def test_the_system_text_is_cut_where_its_static_prefix_ends():
    assert system_blocks("abc", "") == [{"type": "text", "text": "abc"}]
    assert len(system_blocks("abc", "abc")) == 1
    assert len(system_blocks("abc\n", "abc")) == 1  # no blank block
    assert "".join(b["text"] for b in system_blocks("abc def", "abc")) == "abc def"


def test_a_response_schema_goes_out_as_output_config(scripted):
    scripted.says_messages(START, begin(0, type="text", text="{}"), end(0), ended(), STOP)
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    run_turn(AnthropicMessages(scripted.url, KEY), request(user("x"), schema=schema))
    assert scripted.requests[0].json["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}, "does not accept the key"),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}, "does not know model 'm'"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"}}, "too long"),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"bad {KEY}"}}, "rejects the request"),
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, "slow down"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
    ],
)  # fmt: skip
def test_refusals_are_told_in_one_sentence(scripted, status, body, says):
    scripted.fails(status, body)
    with pytest.raises(ProviderError) as error:
        run_turn(AnthropicMessages(scripted.url, KEY), request(user("x")))
    assert says in str(error.value)
    assert KEY not in str(error.value)
    assert len(scripted.requests) == 1


def test_a_refused_connection_names_the_endpoint():
    with pytest.raises(ProviderError, match=r"cannot reach anthropic at http://127\.0\.0\.1:9"):
        run_turn(AnthropicMessages("http://127.0.0.1:9", KEY), request(user("x")))


@pytest.mark.parametrize("cut", [False, True])
def test_a_stream_that_ends_early_is_an_error(scripted, cut):
    scripted.says_messages(
        START, begin(0, type="text", text=""), delta(0, "text_delta", text="Half"), cut=cut
    )
    with pytest.raises(ProviderError, match="broke off"):
        run_turn(AnthropicMessages(scripted.url, KEY), request(user("x")))


def test_an_error_inside_the_stream(scripted):
    scripted.says_messages(
        START, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    )
    with pytest.raises(ProviderError, match="Overloaded"):
        run_turn(AnthropicMessages(scripted.url, KEY), request(user("x")))


@pytest.mark.parametrize(
    "raw",
    [
        b"event: message_start\ndata: {no json\n\n",
        b'event: message_start\ndata: {"type": "message_start", "message": 5}\n\n',
        b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}}\n\n',
    ],
)
def test_malformed_events_are_a_provider_error(scripted, raw):
    scripted.says(raw)
    with pytest.raises(ProviderError) as error:
        run_turn(AnthropicMessages(scripted.url, KEY), request(user("x")))
    assert "cannot be read" in str(error.value)


def test_slow_bytes_arrive_as_they_come(scripted):
    import json

    def wire(event):
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    whole = b"".join(
        map(
            wire,
            (START, begin(0, type="text", text=""), delta(0, "text_delta", text="ok"), end(0), ended(), STOP),
        )
    )
    scripted.says(whole[:50], 0.05, whole[50:301], 0.05, whole[301:])
    text, done = outcome(run_turn(AnthropicMessages(scripted.url, KEY), request(user("x"))))
    assert text == "ok"
    assert done.stop_reason == "end"


def test_the_environment_adds_nothing_to_what_another_endpoint_gets(scripted, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "X-Extra: from-the-environment\nAuthorization: from-the-environment"
    )
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    scripted.says_messages(START, begin(0, type="text", text="ok"), end(0), ended(), STOP)
    events = run_turn(AnthropicMessages(scripted.url, KEY), request(user("x")))
    assert not notices(events)
    assert "from-the-environment" not in str(scripted.requests[0])
    assert scripted.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_arguments_that_a_model_writes_wrongly_reach_the_runner(scripted):
    scripted.says_messages(
        START,
        begin(0, type="tool_use", id="toolu_1", name="file_read", input={}),
        delta(0, "input_json_delta", partial_json='{"path": tru'),
        delta(0, "input_json_delta", partial_json='ly, "a.md"}'),
        end(0),
        ended("tool_use"),
        STOP,
    )
    _, done = outcome(run_turn(AnthropicMessages(scripted.url, KEY), request(user("x"), tools=[READ])))
    assert done.message.calls == (ToolCall("toolu_1", "file_read", '{"path": truly, "a.md"}'),)
    assert done.stop_reason == "tool_calls"


def test_arguments_that_come_whole_where_a_call_begins_are_not_lost(scripted):
    scripted.says_messages(
        START,
        begin(0, type="tool_use", id="toolu_1", name="file_read", input={"path": "a.md"}),
        end(0),
        ended("tool_use"),
        STOP,
    )
    _, done = outcome(run_turn(AnthropicMessages(scripted.url, KEY), request(user("x"), tools=[READ])))
    assert done.message.calls == (ToolCall("toolu_1", "file_read", '{"path":"a.md"}'),)


@pytest.mark.parametrize(
    "part", [{}, {"description": "anything"}, {"type": ["string", "null"]}, {"enum": [1, "a"]}]
)
def test_a_schema_that_the_client_stumbles_over_goes_out_all_the_same(scripted, monkeypatch, part):
    monkeypatch.setattr("halo.models.anthropic_messages.is_own", lambda *_: True)
    scripted.says_messages(START, begin(0, type="text", text="{}"), end(0), ended(), STOP)
    schema = {"type": "object", "properties": {"n": part}, "required": ["n"], "additionalProperties": False}
    run_turn(AnthropicMessages(scripted.url, KEY), request(user("x"), schema=schema))
    sent = scripted.requests[0].json["output_config"]["format"]["schema"]
    assert sent["properties"]["n"].items() >= part.items()
