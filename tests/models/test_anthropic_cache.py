"""Where an Anthropic request is marked for the prompt cache, and what comes of it."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turning import notices, outcome, request, run_turn

from halo.models.anthropic_cache import marked
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.anthropic_wire import messages_body, render
from halo.models.rendering import Rendering
from halo.records.artifacts import Reasoning
from halo.records.messages import Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user
from halo.records.tools import LISTABLE_TOOLS

READ, LIST = LISTABLE_TOOLS["file_read"], LISTABLE_TOOLS["file_list"]


def body_of(*messages, **fields):
    made = request(*messages, provider="anthropic", **fields)
    return made, messages_body(made, Rendering(render).of(made.messages).messages)


def marks_of(sent):
    """Return (where, ttl) of every mark, in the order in which the provider reads them."""
    found = [
        (f"tool {t['name']}", t["cache_control"].get("ttl", "5m"))
        for t in sent.get("tools", [])
        if "cache_control" in t
    ]
    found += [
        (f"system {i}", b["cache_control"].get("ttl", "5m"))
        for i, b in enumerate(sent.get("system", []))
        if "cache_control" in b
    ]
    for i, message in enumerate(sent["messages"]):
        found += [
            (f"message {i}.{j}", b["cache_control"].get("ttl", "5m"))
            for j, b in enumerate(message["content"])
            if "cache_control" in b
        ]
    return found


def loop(calls):
    """Return a history of one question and so many calls with results."""
    history = [user("look")]
    for n in range(calls):
        history.append(Message("assistant", (ToolCall(f"c{n}", "file_read", "{}"),)))
        history.append(Message("user", (ToolResult(f"c{n}", "text"),)))
    return history


def test_the_last_tool_the_static_prefix_and_the_tail_are_marked():
    made, body = body_of(user("a"), system="STATIC rest", static="STATIC ", tools=[READ, LIST])
    assert marks_of(marked(body, made.prefix.static_prefix, "5m", None)) == [
        ("tool file_list", "5m"), ("system 0", "5m"), ("message 0.0", "5m"),
    ]  # fmt: skip


def test_the_longer_life_stands_before_the_shorter():
    made, body = body_of(user("a"), system="STATIC rest", static="STATIC ", tools=[READ])
    assert [ttl for _, ttl in marks_of(marked(body, made.prefix.static_prefix, "1h", None))] == [
        "1h", "1h", "5m",
    ]  # fmt: skip


def test_off_marks_nothing():
    made, body = body_of(user("a"), system="STATIC", static="STATIC", tools=[READ])
    assert marked(body, made.prefix.static_prefix, "off", None) is body


def test_below_the_minimum_nothing_is_marked():
    made, body = body_of(user("a"), system="STATIC rest", static="STATIC ", tools=[READ])
    assert marks_of(marked(body, made.prefix.static_prefix, "5m", 1024)) == []


def test_a_long_conversation_is_cached_behind_a_short_prompt():
    made, body = body_of(user("word " * 2000), system="STATIC", static="STATIC", tools=[READ])
    assert marks_of(marked(body, made.prefix.static_prefix, "5m", 1024)) == [("message 0.0", "5m")]


def test_tools_count_into_the_prefix():
    made, body = body_of(user("a"), system="word " * 600, static="word " * 600, tools=[READ, LIST])
    assert marks_of(marked(body, made.prefix.static_prefix, "5m", 900)) == [
        ("system 0", "5m"), ("message 0.0", "5m"),
    ]  # fmt: skip


def test_a_prompt_without_static_text_has_no_mark_on_its_text():
    made, body = body_of(user("a"), system="at 12:00", static="", tools=[READ])
    assert [where for where, _ in marks_of(marked(body, made.prefix.static_prefix, "5m", None))] == [
        "tool file_read", "message 0.0",
    ]  # fmt: skip


def test_a_long_loop_has_a_second_mark_within_reach_of_the_first():
    made, body = body_of(*loop(40), system="S", static="S")
    marks = [where for where, _ in marks_of(marked(body, made.prefix.static_prefix, "5m", None))]
    assert marks == ["system 0", "message 65.0", "message 80.0"]


def test_thinking_takes_no_mark():
    thought = Thinking(
        "x", ProviderData("anthropic", {"type": "thinking", "thinking": "x", "signature": "s"})
    )
    made, body = body_of(user("a"), Message("assistant", (Text("b"), thought)))
    assert marks_of(marked(body, made.prefix.static_prefix, "5m", None)) == [("message 1.0", "5m")]


@given(st.integers(0, 60), st.sampled_from(["5m", "1h"]), st.sampled_from([None, 1, 300, 5000]))
def test_never_more_than_four_marks_and_nothing_else_changes(calls, cache, minimum):
    made, body = body_of(*loop(calls), system="STATIC rest " * 50, static="STATIC ", tools=[READ])
    before = repr(body)
    sent = marked(body, made.prefix.static_prefix, cache, minimum)
    assert repr(body) == before
    marks = marks_of(sent)
    assert len(marks) <= 4
    lives = [ttl for _, ttl in marks]
    assert lives == sorted(lives)  # "1h" before "5m"
    assert (
        repr(sent)
        .replace(", 'cache_control': {'type': 'ephemeral'}", "")
        .replace(", 'cache_control': {'type': 'ephemeral', 'ttl': '1h'}", "")
        == before
    )


def test_how_much_to_think():
    _, body = body_of(user("a"), thinking=Reasoning(effort="high"))
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": "high"}
    _, body = body_of(user("a"), thinking=Reasoning(budget_tokens=2048))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert "thinking" not in body_of(user("a"))[1]


def test_forbidden_calls_leave_the_tools_in_the_prefix(scripted):
    import msgspec

    made = msgspec.structs.replace(request(user("a"), tools=[READ]), tool_choice="none")
    body = messages_body(made, [])
    assert body["tool_choice"] == {"type": "none"}
    assert len(body["tools"]) == 1


def test_the_real_engine_reads_what_an_earlier_call_left(llama_server):
    """The marks go out to a real server of the protocol; a longer history reads the shorter one."""
    adapter = AnthropicMessages(llama_server.url, llama_server.key)
    static = "You answer for the harbour office. " + "Keep to one short sentence. " * 12
    first = request(
        user("What is the capital of France?"), system=static, static=static, provider="anthropic"
    )

    async def go():
        try:
            async with aclosing(adapter.stream(first)) as events:
                _, one = outcome([e async for e in events])
            more = request(
                *first.history, one.message, user("And of Spain?"),
                system=static, static=static, provider="anthropic",
            )  # fmt: skip
            async with aclosing(adapter.stream(more)) as events:
                return one, *outcome([e async for e in events])
        finally:
            await adapter.close()

    one, _, two = asyncio.run(go())
    assert two.usage.read >= one.usage.prompt - 8
    assert two.body["messages"][0] is one.body["messages"][0] or len(one.body["messages"]) == 1
    assert "cache_control" not in repr(two.body)  # the marks move; what is compared does not hold them
    assert one.request_digest != two.request_digest


START = {
    "type": "message_start",
    "message": {
        "id": "msg_7", "type": "message", "role": "assistant", "content": [], "model": "claude-x", "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 1},
        "diagnostics": {"cache_miss_reason": {"type": "tools_changed", "cache_missed_input_tokens": 4321}},
    },
}  # fmt: skip


def test_what_the_provider_says_of_a_miss_is_passed_on(scripted):
    scripted.says_messages(
        START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )  # fmt: skip
    events = run_turn(AnthropicMessages(scripted.url, "k"), request(user("x"), provider="anthropic"))
    assert notices(events) == [
        (
            "warning: anthropic says that about 4,321 cached tokens were lost because the tools changed since "
            "the last call"
        )
    ]
    # Only the provider's own endpoint is asked for it.
    assert "diagnostics" not in scripted.requests[0].json


class TestWhatTheProviderComparesWith:
    @pytest.fixture
    def asked_for(self, scripted, monkeypatch):
        """Run turns on one adapter at the provider's own endpoint; return what each asks to compare with."""
        monkeypatch.setattr("halo.models.anthropic_messages.is_own", lambda *_: True)

        def run(*turns):
            adapter = AnthropicMessages(scripted.url, "k")
            digests = []
            for number, turn in enumerate(turns, 1):
                start = {**START, "message": {**START["message"], "id": f"msg_{number}", "diagnostics": None}}
                ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
                scripted.says_messages(start, ended, {"type": "message_stop"})
                digests.append(outcome(run_turn(adapter, turn, close=False))[1].request_digest)
            asyncio.run(adapter.close())
            sent = [r.json.get("diagnostics", {}) for r in scripted.requests]
            return [d.get("previous_message_id", "not asked") for d in sent], digests

        return run

    def turn(self, *history, **fields):
        return request(*history, provider="anthropic", **fields)

    def test_the_last_request_where_this_one_goes_on(self, asked_for):
        one = (user("a"),)
        two = (*one, Message("assistant", (Text("b"),)), user("c"))
        assert asked_for(self.turn(*one), self.turn(*two))[0] == [None, "msg_1"]

    def test_not_that_of_another_conversation_or_before_a_shortening(self, asked_for):
        long = (user("a"), Message("assistant", (Text("b"),)), user("c"))
        assert asked_for(self.turn(*long), self.turn(user("c")))[0] == [None, None]

    def test_nothing_without_a_cache_and_the_digest_is_the_requests_alone(self, asked_for):
        turn = self.turn(user("a"), cache="off")
        compared, digests = asked_for(turn, turn)
        assert compared == ["not asked", "not asked"]
        assert digests[0] == digests[1]
