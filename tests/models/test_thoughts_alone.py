"""Replies of thoughts alone: nothing of them can be sent, and the conversation around them stays one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.models.anthropic_wire import render
from halo.models.chat_wire import COMPATIBLE, DEEPSEEK, LOCAL, OPENAI
from halo.models.chat_wire import renderer as chat_renderer
from halo.models.gemini_wire import ContentRenderer
from halo.models.rendering import Rendering
from halo.models.responses_wire import origin
from halo.models.responses_wire import renderer as responses_renderer
from halo.records.messages import Message, ProviderData, Text, Thinking, ToolCall, ToolResult, user

ORIGIN = origin("openai", "https://api.openai.com/v1", "gpt-5")

# How each protocol renders, and a thought as its own models have them.
PROTOCOLS = {
    "anthropic": (lambda: render, ProviderData("anthropic", {"type": "thinking", "thinking": "Hm", "signature": "s"})),
    "anthropic, redacted": (lambda: render, ProviderData("anthropic", {"type": "redacted_thinking", "data": "x"})),
    "chat": (lambda: chat_renderer(OPENAI), None),
    "compatible": (lambda: chat_renderer(COMPATIBLE), None),
    "local": (lambda: chat_renderer(LOCAL), None),
    "deepseek": (lambda: chat_renderer(DEEPSEEK), ProviderData("deepseek", {})),
    "responses": (
        lambda: responses_renderer("openai", "https://api.openai.com/v1", "gpt-5"),
        ProviderData("openai", {**ORIGIN.data, "item": {"id": "rs_1", "encrypted_content": "x", "summary": []}}),
    ),
    "gemini": (lambda: ContentRenderer("gemini-3.8-flash"), ProviderData("gemini", {"thought_signature": "c2ln"})),
}  # fmt: skip


@pytest.fixture(params=PROTOCOLS.values(), ids=PROTOCOLS)
def protocol(request):
    make, data = request.param
    return lambda: Rendering(make()), Thinking("Hm", data)


def says(*blocks):
    return Message("assistant", blocks)


def speakers(rendered):
    """Who speaks, message by message; what tools answer is the user's part."""
    roles = {"model": "assistant", "tool": "user"}
    types = {"function_call": "assistant", "function_call_output": "user", "reasoning": "assistant"}
    return [roles.get(m.get("role"), m.get("role")) or types[m["type"]] for m in rendered]


def words(value):
    """All text in what is rendered, in its order."""
    if isinstance(value, dict):
        kept = (v for k, v in value.items() if k in ("content", "parts", "text", "output", "functionResponse", "response"))  # fmt: skip
        return [w for v in kept for w in words(v)]
    if isinstance(value, list):
        return [w for v in value for w in words(v)]
    return [value] if isinstance(value, str) else []


def test_nothing_of_it_is_sent_and_the_messages_around_it_are_one(protocol):
    rendering, thought = protocol
    history = (user("One"), says(thought), user("Two"))
    assert rendering().of(history) == rendering().of((user("One"), user("Two")))
    rendered = rendering().of(history).messages
    assert speakers(rendered) == ["user"]
    assert "\n\n".join(words(rendered)) == "One\n\nTwo"


def test_a_conversation_that_grows_around_it_is_rendered_as_a_whole_one(protocol):
    rendering, thought = protocol
    history = (
        user("One"), says(Text("A")), user("Two"), says(thought), user("Three"), says(thought, Text("B")), user("Four"),
    )  # fmt: skip
    kept = rendering()
    for end in range(1, len(history) + 1, 2):
        assert kept.of(history[:end]) == rendering().of(history[:end])
    rendered = kept.of(history).messages
    told = [
        who for who, last in zip(speakers(rendered), [None, *speakers(rendered)], strict=False) if who != last
    ]
    assert told == ["user", "assistant", "user", "assistant", "user"]
    assert [w for w in words(rendered) if w != "Hm"] in (
        ["One", "A", "Two", "Three", "B", "Four"],
        ["One", "A", "Two\n\nThree", "B", "Four"],
    )


def test_results_before_it_still_answer_their_calls(protocol):
    rendering, thought = protocol
    call = says(ToolCall("c1", "grep", "{}"))
    result = Message("user", (ToolResult("c1", "found"),))
    kept = rendering()
    kept.of((user("Look"), call, result))
    grown = kept.of((user("Look"), call, result, says(thought), user("And?")))
    assert grown == rendering().of((user("Look"), call, result, user("And?")))
    assert "Result of a tool" not in str(grown.messages)


def test_a_reply_never_ends_with_a_thought(protocol):
    """Anthropic: `The final block in an assistant message cannot be thinking`; Responses wants what follows."""
    rendering, thought = protocol
    once = rendering().of((user("One"), says(Text("A"), thought), user("Two"))).messages
    for message in once:
        content = message.get("content", message.get("parts"))
        last = content[-1] if isinstance(content, list) else message
        assert last.get("type") not in ("thinking", "redacted_thinking", "reasoning")
    assert "A" in words(once)


def test_words_of_spaces_beside_a_thought_are_no_words():
    rendering = Rendering(ContentRenderer("gemini-3.8-flash"))
    signed = Text("", ProviderData("gemini", {"thought_signature": "c2ln"}))
    assert len(rendering.of((user("One"), says(Thinking("Hm"), signed), user("Two"))).messages) == 1


blocks = st.sampled_from([(Text("t"),), (None,), (None, Text("t")), (Text("t"), None), (Text(""),)])
histories = st.lists(st.tuples(st.booleans(), blocks), max_size=9)


@given(st.sampled_from(list(PROTOCOLS)), histories, st.lists(st.integers(0, 9), max_size=4).map(sorted))
def test_whatever_comes_no_role_speaks_twice_in_a_row(name, drawn, cuts):
    make, data = PROTOCOLS[name]
    history = tuple(
        user("u") if mine else says(*(Thinking("Hm", data) if b is None else b for b in content))
        for mine, content in drawn
    )
    kept = Rendering(make())
    for cut in cuts:
        kept.of(history[:cut])
    rendered = kept.of(history)
    assert rendered == Rendering(make()).of(history)
    spoke = speakers(rendered.messages)
    # Items of Responses are parts of a message.
    assert name == "responses" or all(a != b for a, b in pairwise(spoke))
    assert all(m.get("content", m.get("parts", "-")) not in ("", [], None) for m in rendered.messages)
