"""Provider `openai`: the real client against the real engine and against a scripted server."""

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import HaloError, ProviderError
from halo.models.adapter import TextDelta
from halo.models.chat_wire import COMPATIBLE, OPENAI, chat_body, renderer, unsent
from halo.models.openai_chat import OpenAIChat
from halo.models.rendering import Rendering
from halo.records.artifacts import Reasoning
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

KEY = "sk-very-secret-0123456789"
READ = LISTABLE_TOOLS["file_read"]


def chunk(stop=None, model="m-2026", usage=None, **delta):
    choices = [{"index": 0, "delta": delta, "finish_reason": stop}] if usage is None else []
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": choices,
        "usage": usage,
    }


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 64},
}


def test_a_streamed_turn_on_the_real_engine_with_cached_tokens(llama_server):
    adapter = OpenAIChat(llama_server.url + "/v1", llama_server.key)
    system = "You are a helpful assistant for a weather station. " + "Answer in one short sentence. " * 12

    async def two():
        try:
            turns = []
            for question in ("What is the capital of France?", "What is 2 + 2?"):
                turn = request(user(question), system=system, static=system)
                async with aclosing(adapter.stream(turn)) as events:
                    turns.append([e async for e in events])
            return turns
        finally:
            await adapter.close()

    first, second = asyncio.run(two())
    text, done = outcome(first)
    assert "Paris" in text
    assert done.message == Message("assistant", (Text(text),))
    assert done.stop_reason == "end"
    assert done.model == "smollm2"
    assert len(done.request_digest) == 64
    assert done.usage.output > 0
    _, again = outcome(second)
    assert again.usage.read > 60
    assert again.usage.prompt > again.usage.read


def test_parallel_calls_thinking_and_usage(scripted):
    scripted.says_chat(
        chunk(role="assistant", reasoning_content="Let me "),
        chunk(reasoning_content="look."),
        chunk(content="Looking"),
        chunk(tool_calls=[{"index": 0, "id": "call_a", "type": "function", "function": {"name": "file_read", "arguments": ""}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"path": '}}]),
        chunk(tool_calls=[{"index": 1, "id": "call_b", "type": "function", "function": {"name": "grep", "arguments": '{"pattern": "x"}'}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '"a.md"}'}}]),
        chunk(stop="tool_calls"),
        chunk(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20}}),
    )  # fmt: skip
    events = run_turn(
        OpenAIChat(scripted.url + "/v1", KEY), request(user("?"), tools=[READ], top_k=3, top_p=0.5)
    )
    text, done = outcome(events)
    assert text == "Looking"
    assert thinking(events) == "Let me look."
    assert done.message.content == (
        Thinking("Let me look."),
        Text("Looking"),
        ToolCall("call_a", "file_read", '{"path": "a.md"}'),
        ToolCall("call_b", "grep", '{"pattern": "x"}'),
    )
    assert done.stop_reason == "tool_calls"
    assert done.usage == Usage(uncached=16, written=20, read=64, output=7)
    assert done.model == "m-2026"
    sent = scripted.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in sent.body
    assert sent.json["max_tokens"] == 24
    assert sent.json["top_k"] == 3
    assert sent.json["tools"][0]["function"]["parameters"] == READ.parameters


def test_the_history_is_rendered_as_the_protocol_wants_it():
    history = (
        user("one"),
        user("two"),
        Message("assistant", (Thinking("hm", ProviderData("anthropic", {"x": 1})), ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))),
        Message("user", (ToolResult("a", "A"),)),
        Message("user", (ToolResult("b", "boom", is_error=True, images=(Image("image/png", "AAAA"),)), Text("go on"))),
        Message("assistant", (Thinking("only"),)),
    )  # fmt: skip
    messages = Rendering(renderer(COMPATIBLE)).of(history).messages
    rendered = chat_body(request(*history, system="SYS"), messages, COMPATIBLE)["messages"]
    assert [m["role"] for m in rendered] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert rendered[1]["content"] == "one\n\ntwo"
    assert [c["id"] for c in rendered[2]["tool_calls"]] == ["a", "b"]
    assert rendered[4] == {"role": "tool", "tool_call_id": "b", "content": "Error: boom"}
    assert [p["type"] for p in rendered[5]["content"]] == ["image_url", "text"]
    assert "hm" not in str(rendered)


def test_openai_itself_gets_its_own_parameters():
    turn = request(user("x"), top_k=5)
    body = chat_body(turn, [], OPENAI)
    assert body["max_completion_tokens"] == 24
    assert "max_tokens" not in body
    assert "top_k" not in body
    assert unsent(turn.binding, OPENAI) == ["top_k"]
    assert unsent(turn.binding, COMPATIBLE) == []


def test_an_effort_is_sent_and_a_bound_of_thinking_is_not(scripted):
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
    turn = request(user("x"), thinking=Reasoning(effort="low", budget_tokens=100))
    events = run_turn(OpenAIChat(scripted.url + "/v1", KEY), turn)
    assert scripted.requests[0].json["reasoning_effort"] == "low"
    assert notices(events) == ["OpenAI has no `thinking.budget_tokens`; it is not sent"]


def test_where_calls_are_forbidden_the_tools_stay(scripted):
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"))
    turn = msgspec.structs.replace(request(user("x"), tools=[READ]), tool_choice="none")
    run_turn(OpenAIChat(scripted.url + "/v1", KEY), turn)
    sent = scripted.requests[0].json
    assert sent["tool_choice"] == "none"
    assert [t["function"]["name"] for t in sent["tools"]] == ["file_read"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_schema_is_strict_where_strict_mode_takes_it(strict):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    schema["required"] = ["n"] if strict else []
    sent = chat_body(request(user("x"), schema=schema), [], OPENAI)["response_format"]["json_schema"]
    assert sent == {"name": "reply", "schema": schema, "strict": strict}


def test_a_response_schema_constrains_the_real_engine(llama_server):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "const": "Paris"}},
        "required": ["city"],
    }
    turn = request(user("Capital of France?"), system="Answer.", schema=schema)
    text, _ = outcome(run_turn(OpenAIChat(llama_server.url + "/v1", llama_server.key), turn))
    assert '"city"' in text
    assert "Paris" in text


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, "does not accept the key"),
        (403, {"error": {"message": f"key {KEY} may not"}}, "forbids"),
        (404, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}, "does not know model 'm'"),
        (400, {"error": {"message": "bad temperature"}}, "bad temperature"),
        (400, {"error": {"message": "too long", "code": "context_length_exceeded"}}, "too long for 'm'"),
        (400, {"error": {"code": 400, "message": "request (9031 tokens) exceeds the available context size (8192 tokens)", "type": "exceed_context_size_error"}}, "too long for 'm'"),
        (429, {"error": {"message": "slow"}}, "slow down"),
        (500, {"error": {"message": "oops"}}, "failed (500)"),
        (503, "busy", "failed (503)"),
    ],
)  # fmt: skip
def test_refusals_are_told_in_one_sentence(scripted, status, body, says):
    scripted.fails(status, body)
    with pytest.raises(ProviderError) as error:
        run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))
    assert says in str(error.value)
    assert KEY not in str(error.value)
    assert len(scripted.requests) == 1  # no retries


def test_a_refused_connection_names_the_endpoint():
    with pytest.raises(ProviderError, match=r"cannot reach openai at http://127\.0\.0\.1:9/v1") as error:
        run_turn(OpenAIChat("http://127.0.0.1:9/v1", KEY), request(user("x")))
    assert "endpoint" in (error.value.hint or "")


@pytest.mark.parametrize("cut", [False, True])
def test_a_stream_that_ends_early_is_an_error_after_its_words(scripted, cut):
    scripted.says_chat(chunk(content="Half of"), done=False, cut=cut)
    seen = []

    async def go():
        adapter = OpenAIChat(scripted.url + "/v1", KEY)
        try:
            async with aclosing(adapter.stream(request(user("x")))) as events:
                seen.extend([e async for e in events])
        finally:
            await adapter.close()

    with pytest.raises(ProviderError, match="broke off"):
        asyncio.run(go())


@pytest.mark.parametrize(
    "raw",
    [
        b'data: {"choices": [{"index": 0, "delta": {"content": 5}}]}\n\n',
        b'data: {"choices": "none"}\n\n',
        b"data: {not json\n\n",
        b'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "finish_reason": "stop"}]}\n\n',
    ],
)
def test_malformed_events_are_a_provider_error(scripted, raw):
    scripted.says(raw, b"data: [DONE]\n\n")
    with pytest.raises(ProviderError, match="cannot be read"):
        run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))


def test_an_error_inside_the_stream(scripted):
    scripted.says(b'data: {"error": {"message": "server overloaded"}}\n\n')
    with pytest.raises(ProviderError, match="server overloaded"):
        run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))


def test_a_redirect_is_not_followed(scripted):
    scripted.fails(307, {}, location="http://127.0.0.1:9/v1")
    with pytest.raises(ProviderError, match="redirects"):
        run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))


def test_bytes_that_come_slowly_arrive_as_they_come(scripted):
    first = b'data: {"choices":[{"index":0,"delta":{"content":"gr\xc3\xbc'
    rest = b'\xc3\x9fe"}}]}\n\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    scripted.says(first[:-1], 0.05, first[-1:] + rest[:1], 0.05, rest[1:2], 0.05, rest[2:])
    text, _ = outcome(run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x"))))
    assert text == "grüße"


def test_a_caller_that_breaks_off_leaves_nothing_open(scripted):
    scripted.says(*[b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', 0.05] * 10)

    async def go():
        adapter = OpenAIChat(scripted.url + "/v1", KEY)
        async with aclosing(adapter.stream(request(user("x")))) as events:
            async for event in events:
                assert isinstance(event, TextDelta)
                break
        await adapter.close()

    asyncio.run(go())


def test_the_environment_adds_nothing_to_what_another_endpoint_gets(scripted, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Extra: from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"))
    run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))
    assert "from-the-environment" not in str(scripted.requests[0])


def test_every_error_is_a_halo_error(scripted):
    scripted.says(b"<html>login</html>", headers={"content-type": "text/html"})
    with pytest.raises(HaloError):
        run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(user("x")))
