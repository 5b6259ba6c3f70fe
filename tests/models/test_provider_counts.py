"""The provider's own count of a request: the real clients against the real engine, and against a scripted server."""

import asyncio
import json

import pytest
from turning import MODEL, outcome, request, run_turn

from halo.errors import ProviderError
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.count_requests import responses_count_body
from halo.models.local import Local
from halo.models.openai_chat import OpenAIChat
from halo.models.schema_calls import SchemaCalls
from halo.models.spelt_calls import reply_schema
from halo.records.messages import Image, Message, Text, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS

KEY = "sk-very-secret-0123456789"
READ = LISTABLE_TOOLS["file_read"]
STATIC = "You are a helpful assistant for the keepers of a weather station. Answer in one short sentence.\n\n"


def counted(adapter, turn):
    async def go():
        try:
            return await adapter.count(turn)
        finally:
            await adapter.close()

    return asyncio.run(go())


def adapters(url, key=KEY):
    return {
        "anthropic": lambda: AnthropicMessages(url, key),
        "openai": lambda: OpenAIChat(f"{url}/v1", key),
    }


class TestRealEngine:
    @pytest.mark.parametrize("provider", ["anthropic", "openai"])
    def test_the_count_is_what_a_call_reports(self, llama_server, provider):
        """llama.cpp speaks both protocols, their endpoints for counting included."""
        turn = request(
            user("What is 3 + 3?"), system=f"{STATIC}Time zone: UTC", static=STATIC, provider=provider
        )
        make = adapters(llama_server.url, llama_server.key)[provider]
        _, done = outcome(run_turn(make(), turn))
        assert counted(make(), turn) == done.usage.prompt > 20

    def test_and_so_it_is_in_the_process(self, shared_cache):
        turn = request(
            user("What is 3 + 3?"),
            system=f"{STATIC}Time zone: UTC",
            static=STATIC,
            provider="local",
            model=MODEL,
        )

        def local():
            return Local(MODEL, cache=shared_cache, base_dir="/", context_tokens=1024, threads=1)

        _, done = outcome(run_turn(local(), turn))
        assert counted(local(), turn) == done.usage.prompt > 20


TALK = (
    Message("user", (Text("Look."), Image("image/png", "aWNvbg=="))),
    Message("assistant", (Text("I look it up."), ToolCall("c1", "file_read", '{"path": "a.md"}'))),
    Message("user", (ToolResult("c1", "12:40"), Text("Well?"))),
)


class TestWhatIsSent:
    def test_anthropic_gets_the_call_without_what_does_not_count(self, scripted):
        scripted.says(b'{"input_tokens": 1301}', headers={"content-type": "application/json"})
        turn = request(user("."), system="S", tools=[READ], provider="anthropic")
        assert counted(AnthropicMessages(scripted.url, KEY), turn) == 1301
        (sent,) = scripted.requests
        assert sent.path == "/v1/messages/count_tokens"
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.json == {
            "model": "m",
            "system": [{"type": "text", "text": "S"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "."}]}],
            "tools": [{"name": READ.name, "description": READ.description, "input_schema": READ.parameters}],
        }

    def test_openai_gets_the_same_as_a_response(self, scripted):
        scripted.says(
            b'{"object": "response.input_tokens", "input_tokens": 88}',
            headers={"content-type": "application/json"},
        )
        turn = request(user("."), system="S", tools=[READ], temperature=0.5)
        assert counted(OpenAIChat(f"{scripted.url}/v1", KEY), turn) == 88
        (sent,) = scripted.requests
        assert sent.path == "/v1/responses/input_tokens"
        assert sent.headers["authorization"] == f"Bearer {KEY}"
        assert sent.json == responses_count_body(turn)
        assert set(sent.json) == {"model", "instructions", "input", "tools"}

    def test_a_conversation_as_items(self):
        body = responses_count_body(request(*TALK, tools=[READ]))
        assert body["input"] == [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look."},
                    {
                        "type": "input_image",
                        "detail": "auto",
                        "image_url": "data:image/png;base64,aWNvbg==",
                    },
                ],
            },
            {"type": "message", "role": "assistant", "content": "I look it up."},
            {"type": "function_call", "call_id": "c1", "name": "file_read", "arguments": '{"path": "a.md"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "12:40"},
            {"role": "user", "content": "Well?"},
        ]
        assert body["tools"][0]["parameters"] == READ.parameters
        assert "instructions" not in body

    @pytest.mark.parametrize("provider", ["anthropic", "openai"])
    def test_tool_mode_schema_counts_what_it_would_send(self, scripted, provider):
        scripted.says(b'{"input_tokens": 5}', headers={"content-type": "application/json"})
        adapter = SchemaCalls(adapters(scripted.url)[provider]())
        assert counted(adapter, request(user("."), system="S", tools=[READ], provider=provider)) == 5
        (sent,) = scripted.requests
        assert "tools" not in sent.json
        form = sent.json["output_config"] if provider == "anthropic" else sent.json["text"]
        assert form["format"]["schema"] == reply_schema([READ])

    @pytest.mark.parametrize("provider", ["anthropic", "openai"])
    def test_sampling_and_bounds_are_left_out(self, scripted, provider):
        scripted.says(b'{"input_tokens": 5}', headers={"content-type": "application/json"})
        turn = request(user("."), provider=provider, top_k=3, max_tokens=9, temperature=1.0)
        counted(adapters(scripted.url)[provider](), turn)
        assert set(scripted.requests[0].json) == {"model", "messages" if provider == "anthropic" else "input"}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
class TestWhatGoesWrong:
    def fails(self, scripted, provider):
        with pytest.raises(ProviderError) as caught:
            counted(adapters(scripted.url)[provider](), request(user("."), system="S", provider=provider))
        assert KEY not in str(caught.value)
        assert len(scripted.requests) == 1
        return str(caught.value)

    def test_a_key_that_is_refused(self, scripted, provider):
        scripted.fails(401, {"error": {"message": f"bad key {KEY}"}})
        assert "does not accept the key (401)" in self.fails(scripted, provider)

    def test_a_limit(self, scripted, provider):
        scripted.fails(429, {"error": {"message": "too many"}})
        assert "asks to slow down (429): too many" in self.fails(scripted, provider)

    def test_a_server_that_cannot_count(self, scripted, provider):
        scripted.fails(404, {"error": {"message": "no such path"}})
        said = self.fails(scripted, provider)
        assert "does not count tokens, or does not know model 'm' (404)" in said
        assert "leave --ask away" in said

    def test_another_address(self, scripted, provider):
        scripted.says(status=307, headers={"location": "http://127.0.0.1:9/"})
        assert "redirects to another address" in self.fails(scripted, provider)

    @pytest.mark.parametrize(
        "answer", [{}, {"input_tokens": None}, {"input_tokens": "12"}, {"input_tokens": -1}, []]
    )
    def test_an_answer_without_a_number(self, scripted, provider, answer):
        scripted.says(json.dumps(answer).encode(), headers={"content-type": "application/json"})
        assert "cannot be read" in self.fails(scripted, provider)

    def test_nobody_there(self, scripted, provider):
        adapter = adapters("http://127.0.0.1:9")[provider]()
        with pytest.raises(ProviderError, match="cannot reach"):
            counted(adapter, request(user("."), system="S", provider=provider))
