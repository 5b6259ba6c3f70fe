"""Tool calls as constrained text (`model.tool_mode: schema`), for models without a protocol for tools.

The reply is one JSON object, either `{"reply": "…"}` or `{"tool": "name", "arguments": {…}}`, and the
provider is asked to keep to a JSON Schema of exactly that. The history goes back in the same format, so that
few-shots and earlier turns show the model what is expected. What is no such object is never run as a call.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from halo.errors import ProviderError, StartError
from halo.models.adapter import Adapter, Finished, ModelEvent, Request, TextDelta
from halo.models.call_ids import calls_in
from halo.records.messages import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from halo.records.tools import ToolSpec

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

    @property
    def provider(self) -> str:
        """The wrapped adapter's."""
        return self.inner.provider

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`. Without tools it is the wrapped adapter's, unconstrained."""
        reading = _Reading() if _calls(request) else None
        async with aclosing(self.inner.stream(_constrained(request))) as events:
            async for event in events:
                if reading is None:
                    yield event
                elif isinstance(event, TextDelta):
                    if new := reading.add(event.text):
                        yield TextDelta(new)
                elif isinstance(event, Finished):
                    message, stop = _read(event, reading, f"call_{calls_in(request.messages) + 1}")
                    # What was not streamed as it came (half a call, a refusal) is said at the end, so that
                    # the deltas together are always the message's text.
                    if rest := message.text[len(reading.said) :]:
                        yield TextDelta(rest)
                    yield msgspec.structs.replace(event, message=message, stop_reason=stop)
                else:
                    yield event

    async def count(self, request: Request) -> int:
        """Ask for the tokens of what would be sent; see `Adapter.count`."""
        return await self.inner.count(_constrained(request))

    async def close(self) -> None:
        """Close the wrapped adapter."""
        await self.inner.close()


def _constrained(request: Request) -> Request:
    """Put the tools of a request into a schema of the reply, and its history into the format of replies."""
    prefix = request.prefix
    if not _calls(request):
        plain = msgspec.structs.replace(prefix, tools=(), few_shots=_plain(prefix.few_shots))
        return msgspec.structs.replace(request, prefix=plain, history=_plain(request.history))
    if request.response_schema is not None:
        raise StartError(
            "a reply cannot be constrained to a schema and hold tool calls at once",
            hint="set `model.tool_mode: native`, or ask for one of the two",
        )
    spelt = msgspec.structs.replace(prefix, tools=(), few_shots=render(prefix.few_shots))
    return msgspec.structs.replace(
        request,
        prefix=spelt,
        history=render(request.history),
        response_schema=reply_schema(prefix.tools),
    )


def _calls(request: Request) -> bool:
    """Tell whether the reply may be a call."""
    return bool(request.prefix.tools) and request.tool_choice != "none"


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Build the JSON Schema of a reply: an answer in words, or one call of one of `tools`."""
    answer = _object(reply={"type": "string"})
    calls = [
        _object(
            tool={"type": "string", "const": t.name},
            arguments=_moved(t.parameters, f"#/anyOf/{i}/properties/arguments"),
        )
        for i, t in enumerate(tools, 1)
    ]
    return {"anyOf": [answer, *calls]}


def _moved(schema: Any, to: str) -> Any:
    """Let what a schema refers to in itself (as those of MCP servers do) be found where it stands now."""
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: to + value[1:]
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _moved(value, to)
        for key, value in schema.items()
    }


def render(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Spell a history in the format of the replies: calls and answers as JSON, results as the user's text."""
    names = {call.id: call.name for message in messages for call in message.calls}
    return tuple(
        Message("assistant", (Text(_said(m)),)) if m.role == "assistant" else _heard(m, names)
        for m in messages
    )


def _plain(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Leave a history as it is unless it holds calls or results, which no protocol takes without tools."""
    if any(isinstance(b, (ToolCall, ToolResult)) for m in messages for b in m.content):
        return render(messages)
    return tuple(messages)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _said(message: Message) -> str:
    """Render an assistant's message. Spaces as models write them: a reply then equals its own history."""
    said = [_dumps({"reply": message.text})] if message.text or not message.calls else []
    return "\n".join([*said, *(_dumps({"tool": c.name, "arguments": _decoded(c)}) for c in message.calls)])


def _heard(message: Message, names: dict[str, str]) -> Message:
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            name = names.get(block.call_id, "the tool")
            title = f"Error from {name}:" if block.is_error else f"Result of {name}:"
            blocks.extend((Text(f"{title}\n{block.text}"), *block.images))
        elif isinstance(block, (Text, Image)):
            blocks.append(block)
    return Message("user", tuple(blocks) or (Text(""),))


def _decoded(call: ToolCall) -> object:
    try:
        return msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return call.arguments


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


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
    except (msgspec.MsgspecError, ValueError):
        pass
    try:
        call = msgspec.json.decode(text, type=_Call)
        msgspec.json.decode(call.arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError):
        return None
    return ToolCall(call_id, call.tool, bytes(call.arguments).decode())
