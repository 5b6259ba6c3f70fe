"""Provider `deepseek`: Chat Completions with its own rules, against a scripted server and the real engine."""

import msgspec
import pytest
from test_openai_chat import KEY, chunk
from turning import notices, outcome, request, run_turn, thinking

from halo.errors import MissingKeyError, ProviderError, StartError
from halo.models.endpoints import check_key_may_go, normalise
from halo.models.openai_chat import OpenAIChat
from halo.models.opening import open_adapter
from halo.records.artifacts import Binding, Reasoning
from halo.records.messages import Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS
from halo.records.usage import Usage

READ = LISTABLE_TOOLS["file_read"]
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 50,
    "total_tokens": 1050,
    "prompt_cache_hit_tokens": 896,
    "prompt_cache_miss_tokens": 104,
    "prompt_tokens_details": {"cached_tokens": 896},
}
NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def adapter(scripted):
    return OpenAIChat(scripted.url, KEY, provider="deepseek")


def asked(*messages, **fields):
    return request(*messages, **{"provider": "deepseek", "temperature": None, "seed": None, **fields})


def sent_after(scripted, turn):
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
    run_turn(adapter(scripted), turn)
    return scripted.requests[-1].json


def test_a_turn_with_thoughts_calls_and_hits(scripted):
    scripted.says_chat(
        chunk(role="assistant", content=None, reasoning_content="Look "),
        chunk(content=None, reasoning_content="there."),
        chunk(tool_calls=[{"index": 0, "id": "a", "type": "function", "function": {"name": "file_read", "arguments": ""}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"path": "a"}'}}]),
        chunk(stop="tool_calls", content=""),
        chunk(usage=USAGE),
        chunk(usage=NOTHING),
    )  # fmt: skip
    events = run_turn(adapter(scripted), asked(user("?"), system="S", tools=[READ]))
    _, done = outcome(events)
    assert thinking(events) == "Look there."
    assert done.usage == Usage(uncached=104, read=896, output=50)
    assert done.message.content == (
        Thinking("Look there.", ProviderData("deepseek", {})),
        ToolCall("a", "file_read", '{"path": "a"}'),
    )
    (sent,) = scripted.requests
    assert sent.path == "/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["messages"][0] == {"role": "system", "content": "S"}
    assert sent.json["max_tokens"] == 24
    assert "prompt_cache_key" not in sent.json
    assert done.body == sent.json


def test_its_own_thoughts_go_back_and_no_others(scripted):
    """Since V3.2 a request that lacks the thoughts of a message with calls is refused."""
    history = (
        user("a"),
        Message("assistant", (Thinking("mine", ProviderData("deepseek", {})), ToolCall("1", "f", "{}"))),
        Message("user", (ToolResult("1", "r"),)),
        Message(
            "assistant", (Thinking("another's", ProviderData("anthropic", {})), ToolCall("2", "f", "{}"))
        ),
        Message("user", (ToolResult("2", "r"),)),
        Message("assistant", (Thinking("nobody's"), Text("said"))),
        user("b"),
    )
    messages = sent_after(scripted, asked(*history, tools=[READ]))["messages"]
    assert [m["reasoning_content"] for m in messages if m["role"] == "assistant"] == ["mine", "", ""]
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
    run_turn(OpenAIChat(scripted.url + "/v1", KEY), request(*history, tools=[READ]))
    assert "mine" not in str(scripted.requests[-1].json)


@pytest.mark.parametrize(
    ("asked_for", "body"),
    [
        (None, {}),
        (Reasoning(effort="none"), {"thinking": {"type": "disabled"}}),
        (Reasoning(effort="max"), {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        (Reasoning(budget_tokens=9), {"thinking": {"type": "enabled"}}),
    ],
)
def test_how_much_it_thinks(scripted, asked_for, body):
    sent = sent_after(scripted, asked(user("x"), thinking=asked_for))
    assert {k: sent[k] for k in ("thinking", "reasoning_effort") if k in sent} == body


def test_what_it_has_no_word_for_is_said(scripted):
    scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
    events = run_turn(adapter(scripted), asked(user("x"), seed=1, top_k=2, temperature=0.5))
    assert notices(events) == [
        "DeepSeek has no `top_k`; it is not sent",
        "DeepSeek has no `seed`; it is not sent",
    ]
    assert not {"seed", "top_k"} & set(scripted.requests[0].json)
    assert scripted.requests[0].json["temperature"] == 0.5


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class TestSchemas:
    """It takes no schema, only the wish for JSON; so the schema is told."""

    def test_at_the_end_of_what_the_user_said(self, scripted):
        sent = sent_after(scripted, asked(user("Where?"), system="S", schema=SCHEMA))
        assert sent["response_format"] == {"type": "json_object"}
        assert sent["messages"][0] == {"role": "system", "content": "S"}
        assert sent["messages"][1]["content"].startswith("Where?\n\nAnswer with one JSON object")
        assert '"city"' in sent["messages"][1]["content"]

    def test_after_the_results_of_tools(self, scripted):
        call = Message("assistant", (ToolCall("1", "f", "{}"),))
        results = Message("user", (ToolResult("1", "r"),))
        sent = sent_after(scripted, asked(user("?"), call, results, schema=SCHEMA))
        assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "tool", "user"]

    def test_the_words_are_not_kept(self, scripted):
        turn = asked(user("Where?"), schema=SCHEMA)
        scripted.says_chat(chunk(content="{}"), chunk(stop="stop"), chunk(usage=USAGE))
        scripted.says_chat(chunk(content="ok"), chunk(stop="stop"), chunk(usage=USAGE))
        one = adapter(scripted)
        run_turn(one, turn)
        run_turn(one, asked(*turn.history, Message("assistant", (Text("{}"),)), user("And?")))
        assert scripted.requests[-1].json["messages"][0]["content"] == "Where?"

    def test_a_schema_changes_the_digest(self, scripted):
        digests = set()
        for schema in (None, SCHEMA, {**SCHEMA, "required": []}):
            scripted.says_chat(chunk(content="{}"), chunk(stop="stop"), chunk(usage=USAGE))
            digests.add(
                outcome(run_turn(adapter(scripted), asked(user("?"), schema=schema)))[1].request_digest
            )
        assert len(digests) == 3


def test_where_calls_are_forbidden_the_tools_stay(scripted):
    turn = msgspec.structs.replace(asked(user("x"), tools=[READ]), tool_choice="none")
    sent = sent_after(scripted, turn)
    assert sent["tool_choice"] == "none"
    assert sent["tools"]


def test_it_cannot_count(scripted):
    import asyncio

    with pytest.raises(ProviderError, match="no endpoint that counts"):
        asyncio.run(adapter(scripted).count(asked(user("x"))))
    assert scripted.requests == []


class TestEndpoint:
    def test_its_own_is_taken_as_it_is(self):
        assert normalise("deepseek", "") == "https://api.deepseek.com"
        assert normalise("deepseek", "http://127.0.0.1:8080/v1/") == "http://127.0.0.1:8080/v1"
        assert normalise("deepseek", "http://127.0.0.1:8080") == "http://127.0.0.1:8080"

    @pytest.mark.parametrize(
        "url",
        [
            "http://api.deepseek.com",
            "https://api.deepseek.com:8443",
            "https://api.deepseek.com.evil.com",
            "https://api.openai.com/v1",
        ],
    )
    def test_its_key_goes_nowhere_else(self, url):
        with pytest.raises(StartError, match="must not go"):
            check_key_may_go("deepseek", url, trusted=False)

    def test_a_missing_key_names_setting_and_variable(self):
        with pytest.raises(MissingKeyError, match=r"(?s)deepseek\.secrets\.api_key.*DEEPSEEK_API_KEY"):
            open_adapter(
                Binding("deepseek", "deepseek-flash"),
                tool_mode="native", key=None, trusted=False, context_tokens=9, cache="/", base_dir="/",
            )  # fmt: skip

    def test_openais_environment_adds_nothing(self, scripted, monkeypatch):
        for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
            monkeypatch.setenv(name, "from-the-environment")
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Extra: from-the-environment")
        # Also when it is DeepSeek's own endpoint that is asked.
        monkeypatch.setattr("halo.models.provider_clients.is_own", lambda *_: True)
        sent_after(scripted, asked(user("x")))
        assert "from-the-environment" not in str(scripted.requests[0])


def test_the_real_engine_understands_it(llama_server):
    turn = asked(user("What is the capital of France?"), system="Answer in one word.", temperature=0.0)
    text, done = outcome(run_turn(OpenAIChat(llama_server.url, llama_server.key, provider="deepseek"), turn))
    assert text
    assert done.usage.output > 0
