"""What comes over the wire is kept only if it can be: whole characters, reasonable nesting."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turning import outcome, request, run_turn

from halo.errors import ProviderError
from halo.files.canonical import canonical_json
from halo.models.adapter import TextDelta
from halo.models.anthropic_messages import AnthropicMessages
from halo.models.anthropic_wire import render
from halo.models.call_arguments import arguments_object, sent_arguments
from halo.models.characters import whole_characters, whole_text
from halo.models.error_bodies import message_of
from halo.models.openai_chat import OpenAIChat
from halo.models.provider_clients import events_of
from halo.models.rendering import Rendering
from halo.records.messages import Message, ToolCall, user

anything = st.recursive(
    st.text(st.characters(codec=None, categories=("L", "Cs", "N"))) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(anything)
def test_whatever_was_decoded_can_be_written_again(value):
    whole = whole_characters(value)
    json.dumps(whole, ensure_ascii=False).encode()
    assert whole_characters(whole) is whole


@given(st.text())
def test_whole_text_stays_as_it_is(text):
    assert whole_text(text) == text


def test_halves_are_joined_or_marked():
    assert whole_text("a\ud83d\ude00b") == "a\U0001f600b"
    assert whole_text("a\ud83db\ude00") == "a\ufffdb\ufffd"
    assert message_of({"error": {"message": "no \ud83d"}}) == "no \ufffd"


def test_a_turn_does_not_fail_by_half_a_character(scripted):
    scripted.says(
        b'data: {"choices": [{"delta": {"content": "Hi \\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "!"}, "finish_reason": "stop"}]}\n\n',
        b"data: [DONE]\n\n",
    )
    events = run_turn(OpenAIChat(scripted.url, "k"), request(user("x")))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hi \ufffd", "!"]
    canonical_json(outcome(events)[1].message)


def test_an_event_that_is_nested_beyond_reason_does_not_follow_the_protocol(scripted):
    scripted.says(b'data: {"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n")
    with pytest.raises(ProviderError) as error:
        run_turn(OpenAIChat(scripted.url, "k"), request(user("x")))
    assert error.value.kind == "protocol"


class TestArguments:
    @pytest.mark.parametrize(
        "arguments", ["", "{", "[1]", "null", "{broken", '{"a":' * 500 + "1" + "}" * 500]
    )
    def test_what_is_no_object_goes_back_under_a_name(self, arguments):
        assert arguments_object(arguments) is None
        assert sent_arguments(arguments) == {"malformed_arguments": arguments}

    @pytest.mark.parametrize("levels", [990, 100_000])
    def test_a_history_with_arguments_beyond_reason_can_be_sent(self, levels):
        arguments = '{"a":' + "[" * levels + "]" * levels + "}"
        call = Message("assistant", (ToolCall("c", "f", arguments),))
        sent = Rendering(render).of((user("x"), call, user("y"))).messages
        assert sent[1]["content"][0]["input"] == {"malformed_arguments": arguments}

    def test_an_object_is_itself(self):
        assert sent_arguments('{"a": [{"b": null}], "c": {}}') == {"a": [{"b": None}], "c": {}}


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_the_clients_do_not_walk_what_is_sent(scripted, package):
    """Ten thousand messages would cost them longer than a short call takes."""
    client = {"openai": OpenAIChat, "anthropic": AnthropicMessages}[package](scripted.url, "k")._open()
    walked = []

    class Watched(dict):
        def items(self):
            walked.append(self)
            return super().items()

    scripted.says_messages({"type": "message_stop"})

    async def send():
        body = {"messages": [Watched(role="user", content="x")], "stream": True}
        async with client:
            return [event async for event in events_of(client, "/v1/messages", body)]

    assert asyncio.run(send()) == [{"type": "message_stop"}]
    assert scripted.requests[0].json["messages"] == [{"role": "user", "content": "x"}]
    assert scripted.requests[0].headers["content-type"] == "application/json"
    assert walked == []
