"""Tool calls as constrained text (`model.tool_mode: schema`), for models without a protocol for tools.

The reply is one JSON object, either `{"reply": "…"}` or `{"tool": "name", "arguments": {…}}`, and the
provider is asked to keep to a JSON Schema of exactly that. The history goes back in the same format, so that
few-shots and earlier turns show the model what is expected. What is no such object is never run as a call.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from halo.errors import ProviderError, StartError
from halo.models.adapter import Adapter, Finished, Lost, ModelEvent, Request, TextDelta
from halo.models.call_arguments import arguments_object
from halo.models.spelt_calls import Spelling, reply_schema
from halo.records.messages import Message, Text, Thinking, ToolCall, ToolResult

_SHOWN = 200  # characters of an unreadable reply that an error repeats


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    reply: str


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: msgspec.Raw


class SchemaCalls:
    """Wraps an adapter; see the module."""

    def __init__(self, inner: Adapter) -> None:
        self.inner = inner
        self._spelling = Spelling()

    @property
    def provider(self) -> str:
        """The wrapped adapter's."""
        return self.inner.provider

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`. Without tools it is the wrapped adapter's, unconstrained."""
        reading = _Reading() if _calls(request) else None
        constrained = self._constrained(request)
        call_id = f"call_{self._spelling.calls + 1}"
        async with aclosing(self.inner.stream(constrained)) as events:
            async for event in events:
                if reading is None:
                    yield event
                elif isinstance(event, TextDelta):
                    if new := reading.add(event.text):
                        yield TextDelta(new)
                elif isinstance(event, Finished):
                    try:
                        message, stop = _read(event, reading, call_id)
                    except ProviderError:
                        yield Lost(event.usage, event.model)
                        raise
                    # What was not streamed as it came (half a call, a refusal) is said at the end, so that
                    # the deltas together are always the message's text.
                    if rest := message.text[len(reading.said) :]:
                        yield TextDelta(rest)
                    yield msgspec.structs.replace(event, message=message, stop_reason=stop)
                else:
                    yield event

    async def count(self, request: Request) -> int:
        """Ask for the tokens of what would be sent; see `Adapter.count`."""
        return await self.inner.count(self._constrained(request))

    async def close(self) -> None:
        """Close the wrapped adapter."""
        await self.inner.close()

    def _constrained(self, request: Request) -> Request:
        """Put the tools into a schema of the reply, and the history into the format of replies."""
        prefix = request.prefix
        if not _calls(request):
            plain = msgspec.structs.replace(prefix, tools=(), few_shots=_plain(prefix.few_shots))
            return msgspec.structs.replace(request, prefix=plain, history=_plain(request.history))
        if request.response_schema is not None:
            raise StartError(
                "a reply cannot be constrained to a schema and hold tool calls at once",
                hint="set `model.tool_mode: native`, or ask for one of the two",
            )
        spelt, shots = self._spelling.of(request.messages), len(prefix.few_shots)
        return msgspec.structs.replace(
            request,
            prefix=msgspec.structs.replace(prefix, tools=(), few_shots=spelt[:shots]),
            history=spelt[shots:],
            response_schema=reply_schema(prefix.tools),
        )


def _calls(request: Request) -> bool:
    """Tell whether the reply may be a call."""
    return bool(request.prefix.tools) and request.tool_choice != "none"


def _plain(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Leave a history as it is unless it holds calls or results, which no protocol takes without tools."""
    if any(isinstance(b, (ToolCall, ToolResult)) for m in messages for b in m.content):
        return Spelling().of(messages)
    return messages


class _Reading:
    """Follows a reply as it comes and knows how much of its words has been passed on."""

    def __init__(self) -> None:
        self.raw = ""
        self.said = ""

    def add(self, text: str) -> str:
        """Take more of the raw reply; return the new words of `reply` in it."""
        import jiter

        self.raw += text
        try:
            value = jiter.from_json(self.raw.encode(), partial_mode="trailing-strings")
        except ValueError:
            return ""  # not JSON yet, or not at all: the end decides
        words = value.get("reply") if isinstance(value, dict) else None
        if not isinstance(words, str) or not words.startswith(self.said):
            return ""
        new, self.said = words[len(self.said) :], words
        return new


def _read(finished: Finished, reading: _Reading, call_id: str) -> tuple[Message, Any]:
    """Read the whole reply as words or a call. Raises ProviderError when it is neither."""
    thinking = tuple(b for b in finished.message.content if isinstance(b, Thinking))
    block = _block(finished.message.text, call_id)
    if block is not None:
        stop = "tool_calls" if isinstance(block, ToolCall) else "end"
        return Message("assistant", (*thinking, block)), stop
    if finished.stop_reason == "max_tokens":
        # Half a call is words, not a call: it must not run with the arguments that happened to arrive.
        return Message("assistant", (*thinking, Text(reading.said or reading.raw))), "max_tokens"
    if finished.stop_reason == "refusal":
        return Message("assistant", (*thinking, Text(reading.said or reading.raw))), "refusal"
    raw = finished.message.text
    raise ProviderError(
        f"the model's reply is neither an answer nor a tool call: {raw[:_SHOWN]!r}"
        + ("…" if len(raw) > _SHOWN else ""),
        hint="the endpoint must keep to a JSON Schema for `model.tool_mode: schema`; otherwise use `native`",
    )


def _block(raw: str, call_id: str) -> Text | ToolCall | None:
    text = raw.strip()
    try:
        return Text(msgspec.json.decode(text, type=_Reply).reply)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        call = msgspec.json.decode(text, type=_Call)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    arguments = bytes(call.arguments).decode()
    return ToolCall(call_id, call.tool, arguments) if arguments_object(arguments) is not None else None
