"""Anthropic Messages as JSON: requests out of neutral values, and neutral values out of a stream. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from halo.models.adapter import (
    Finished,
    Lost,
    ModelEvent,
    Notice,
    Request,
    StopReason,
    TextDelta,
    ThinkingDelta,
)
from halo.models.call_arguments import sent_arguments
from halo.models.event_reading import read_event
from halo.models.failures import Call, broke_off, malformed
from halo.records.artifacts import Reasoning
from halo.records.messages import Block, Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult
from halo.records.usage import Usage

PROVIDER = "anthropic"

_STOPS: dict[str, StopReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


def messages_body(request: Request, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the body of a call out of its rendered messages (`render`).

    Without `stream`, which the client adds, without a response schema, and without marks for the cache
    (`halo.models.anthropic_cache`).
    """
    binding = request.binding
    body: dict[str, Any] = {
        "model": binding.model,
        "max_tokens": binding.max_tokens,
        "messages": messages,
    }
    if request.prefix.system.strip():
        body["system"] = system_blocks(request.prefix.system, request.prefix.static_prefix)
    if request.prefix.tools:
        body["tools"] = [
            {"name": t.name, "description": t.description, "input_schema": t.parameters}
            for t in request.prefix.tools
        ]
        if request.tool_choice == "none":
            body["tool_choice"] = {"type": "none"}
    if binding.thinking is not None and binding.thinking.effort != "none":
        body |= _thinking(binding.thinking)
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(binding, name)
        if value is not None:
            body[name] = value
    return body


def _thinking(asked: Reasoning) -> dict[str, Any]:
    """Render how much to think: a bound in tokens, or an effort, by which the model itself decides."""
    if asked.budget_tokens is not None:
        return {"thinking": {"type": "enabled", "budget_tokens": asked.budget_tokens}}
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"thinking": thinking, **({"output_config": {"effort": asked.effort}} if asked.effort else {})}


def system_blocks(system: str, static_prefix: str) -> list[dict[str, Any]]:
    """Cut the system text where its static prefix ends.

    The protocol refuses blank blocks, so a blank part is not split off.
    """
    rest = system[len(static_prefix) :]
    if not static_prefix.strip() or not rest.strip():
        return [{"type": "text", "text": system}]
    return [{"type": "text", "text": static_prefix}, {"type": "text", "text": rest}]


def render(message: Message) -> Iterator[dict[str, Any]]:
    """Render a message whose neighbours have the other role; nothing for one without anything to send."""
    content = _content(message)
    if content:
        yield {"role": message.role, "content": content}


def _content(message: Message) -> list[dict[str, Any]]:
    blocks = [rendered for block in message.content if (rendered := _block(block)) is not None]
    if message.role == "user":
        # The protocol wants results before everything else; the sort is stable.
        blocks.sort(key=lambda b: b["type"] != "tool_result")
    # Thoughts that led to nothing: a reply of the model must not end with one.
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _block(block: Block) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, Image):
        source = {"type": "base64", "media_type": block.media_type, "data": block.data}
        return {"type": "image", "source": source}
    if isinstance(block, ToolCall):
        return {
            "type": "tool_use",
            "id": block.id,
            "name": block.name,
            "input": sent_arguments(block.arguments),
        }
    if isinstance(block, ToolResult):
        return _tool_result(block)
    mine = block.provider_data is not None and block.provider_data.provider == PROVIDER
    return dict(block.provider_data.data) if mine and block.provider_data is not None else None


def _tool_result(block: ToolResult) -> dict[str, Any]:
    parts = [p for p in (_block(Text(block.text)), *(_block(i) for i in block.images)) if p is not None]
    rendered: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.call_id, "content": parts}
    if block.is_error:
        rendered["is_error"] = True
    return rendered


class _UsageData(msgspec.Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Miss(msgspec.Struct):
    type: str
    cache_missed_input_tokens: int = 0


class _Diagnostics(msgspec.Struct):
    cache_miss_reason: _Miss | None = None


class _StartedMessage(msgspec.Struct):
    id: str = ""
    model: str = ""
    usage: _UsageData | None = None
    diagnostics: _Diagnostics | None = None


class _Part(msgspec.Struct):
    """A content block as it starts, or a delta to it; `type` says which fields count."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str
    index: int = 0
    message: _StartedMessage | None = None
    content_block: _Part | None = None
    delta: _Part | None = None
    usage: _UsageData | None = None


class MessagesStream:
    """Gathers the events of one reply. `feed` each, then `finish`."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._parts: dict[int, _Part] = {}
        self._usage = _UsageData()
        self._model = ""
        self._stop: str | None = None
        self._whole = False
        self.id = ""

    def feed(self, event: object) -> list[ModelEvent]:
        """Take a decoded event and return what it adds. Raises ProviderError when it is malformed."""
        parsed = read_event(event, _Event, self._call)
        if parsed.type == "message_start" and parsed.message is not None:
            self.id, self._model = parsed.message.id, parsed.message.model
            self._count(parsed.message.usage)
            return list(_missed(parsed.message.diagnostics))
        if parsed.type == "content_block_start" and parsed.content_block is not None:
            self._parts[parsed.index] = parsed.content_block
            return list(_said(parsed.content_block))
        if parsed.type == "content_block_delta" and parsed.delta is not None:
            return list(self._add(parsed.index, parsed.delta))
        if parsed.type == "message_delta":
            self._stop = (parsed.delta.stop_reason if parsed.delta else None) or self._stop
            self._count(parsed.usage)
        elif parsed.type == "message_stop":
            self._whole = True
        return []

    def _add(self, index: int, delta: _Part) -> Iterator[ModelEvent]:
        part = self._parts.get(index)
        if part is None:
            raise malformed(self._call, f"a delta to block {index}, which was never started")
        for name in ("text", "thinking", "signature", "partial_json"):
            if more := getattr(delta, name):
                setattr(part, name, (getattr(part, name) or "") + more)
        yield from _said(delta)

    def _count(self, usage: _UsageData | None) -> None:
        """Take over the counts that are there; later ones are cumulative."""
        for name in _UsageData.__struct_fields__:
            value = getattr(usage, name, None)
            if value is not None:
                setattr(self._usage, name, value)

    def _counted(self) -> Usage:
        usage = self._usage
        return Usage(
            uncached=usage.input_tokens or 0,
            written=usage.cache_creation_input_tokens or 0,
            read=usage.cache_read_input_tokens or 0,
            output=usage.output_tokens or 0,
        )

    def lost(self) -> Iterator[Lost]:
        """Say what was counted of a reply that failed, if anything: the prompt, before the first word."""
        if (usage := self._counted()) != Usage():
            yield Lost(usage, self._model)

    def finish(self, digest: str, body: dict[str, Any] | None = None) -> Finished:
        """Build the whole reply to `body`. Raises ProviderError when the stream ended before it did."""
        if not self._whole or self._stop is None:
            raise broke_off(self._call)
        blocks = tuple(
            b for _, part in sorted(self._parts.items()) if (b := self._finished(part)) is not None
        )
        return Finished(
            Message("assistant", blocks or (Text(""),)),
            _STOPS.get(self._stop, "end"),
            self._counted(),
            self._model,
            digest,
            body=body,
        )

    def _finished(self, part: _Part) -> Block | None:
        if part.type == "text":
            return Text(part.text or "")
        if part.type == "thinking":
            text = part.thinking or ""
            data = {"type": "thinking", "thinking": text, "signature": part.signature or ""}
            # Without a signature the provider refuses to take it back.
            return Thinking(text, ProviderData(PROVIDER, data) if part.signature else None)
        if part.type == "redacted_thinking":
            return Thinking("", ProviderData(PROVIDER, {"type": part.type, "data": part.data or ""}))
        if part.type == "tool_use":
            if not part.id or not part.name:
                raise malformed(self._call, "a tool call without an id or a name")
            # Servers that do not stream arguments send them whole, where the call begins.
            whole = msgspec.json.encode(part.input).decode() if part.input else "{}"
            return ToolCall(part.id, part.name, part.partial_json or whole)
        raise malformed(self._call, f"a content block of the unknown type {part.type!r}")


def _missed(diagnostics: _Diagnostics | None) -> Iterator[ModelEvent]:
    """Tell what the provider itself says of a cache that it could not use (`diagnostics`)."""
    miss = diagnostics.cache_miss_reason if diagnostics is not None else None
    if miss is not None and miss.type.endswith("_changed"):
        what = miss.type.removesuffix("_changed")
        yield Notice(
            f"warning: {PROVIDER} says that about {miss.cache_missed_input_tokens:,} cached tokens were lost "
            f"because the {what} changed since the last call"
        )


def _said(part: _Part) -> Sequence[ModelEvent]:
    if part.text:
        return [TextDelta(part.text)]
    return [ThinkingDelta(part.thinking)] if part.thinking else []
