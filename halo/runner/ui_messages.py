"""The events of a turn as the AI SDK's UI message stream, version 1, over server-sent events. Pure.

Source: the published stream protocol and the chunk schema of the npm package `ai`, version 6. Tools go out as
dynamic ones: a client need not know them. What the protocol has no part for goes out as `data-…` parts that
are not kept in the message (`transient`).
"""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from halo.models.adapter import Notice, Retrying, TextDelta, ThinkingDelta
from halo.models.call_arguments import arguments_object
from halo.records.events import (
    ContextShortened,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    UsageLost,
    UsageReported,
)
from halo.records.messages import ToolCall
from halo.records.usage import Usage
from halo.runner.turn import TurnEvent

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}

DONE = b"data: [DONE]\n\n"

Chunk = dict[str, Any]

_FINISH = {"done": "stop", "max_tokens": "length", "refusal": "content-filter", "error": "error"}


def encode(chunk: Chunk) -> bytes:
    """Render a chunk as a server-sent event."""
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


class UiMessage:
    """Follows one turn, one message of the client: `start`, `feed` each event, `fail` on an error."""

    def __init__(self, message_id: str) -> None:
        """`message_id` is the client's id of the message, such as that of the session and the turn."""
        self._id = message_id
        self._open: tuple[Literal["text", "reasoning"], str] | None = None
        self._parts = 0
        self._in_step = False
        self._answered = False  # tools have answered: the next thing that the model says is another step
        self._usage = Usage()

    def start(self) -> list[Chunk]:
        """Begin the message."""
        return [{"type": "start", "messageId": self._id}]

    def feed(self, event: TurnEvent) -> list[Chunk]:
        """Take an event and return the chunks that it makes."""
        return list(self._feed(event))

    def fail(self, reason: str) -> list[Chunk]:
        """End a turn that broke off with an error."""
        return [*self._end_step(), {"type": "error", "errorText": reason}]

    def _feed(self, event: TurnEvent) -> Iterator[Chunk]:
        match event:
            case TextDelta():
                yield from self._say("text", event.text)
            case ThinkingDelta():
                yield from self._say("reasoning", event.text)
            case MessageAdded():
                yield from self._begin_step()
                yield from self._close()
                for call in event.message.calls:
                    yield _input(call)
            case ToolResultAdded():
                yield _output(event)
                self._answered = True
            case UsageReported() | UsageLost():
                self._usage += event.usage
            case Retrying():
                # What was shown since the last step cannot be taken back; the client is told which it was.
                yield from self._close()
                yield _data("retry", reason=event.reason, seconds=event.seconds, attempt=event.attempt)
            case Notice():
                yield _data("notice", text=event.text)
            case ContextShortened():
                yield _data(
                    "context",
                    strategy=event.strategy,
                    tokensBefore=event.tokens_before,
                    tokensAfter=event.tokens_after,
                )
            case Repaired():
                yield _data("repair", kind=event.kind, toolCallId=event.call_id, note=event.note)
            case TurnEnded():
                yield from self._end(event)

    def _say(self, kind: Literal["text", "reasoning"], delta: str) -> Iterator[Chunk]:
        yield from self._begin_step()
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            self._parts += 1
            self._open = (kind, f"{kind}-{self._parts}")
            yield {"type": f"{kind}-start", "id": self._open[1]}
        yield {"type": f"{kind}-delta", "id": self._open[1], "delta": delta}

    def _close(self) -> Iterator[Chunk]:
        if self._open is not None:
            kind, part = self._open
            self._open = None
            yield {"type": f"{kind}-end", "id": part}

    def _begin_step(self) -> Iterator[Chunk]:
        if self._answered:
            yield from self._end_step()
        if not self._in_step:
            self._in_step = True
            yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Chunk]:
        yield from self._close()
        self._answered = False
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}

    def _end(self, ended: TurnEnded) -> Iterator[Chunk]:
        yield from self._end_step()
        if ended.reason == "interrupted":
            yield {"type": "abort"}
            return
        if ended.error:
            yield {"type": "error", "errorText": ended.error}
        yield {
            "type": "finish",
            "finishReason": _FINISH.get(ended.reason, "other"),
            "messageMetadata": {"reason": ended.reason, "usage": msgspec.to_builtins(self._usage)},
        }


def _input(call: ToolCall) -> Chunk:
    chunk: Chunk = {"toolCallId": call.id, "toolName": call.name, "dynamic": True}
    value = arguments_object(call.arguments or "{}")
    if value is None:
        wrong = "the arguments are no JSON object"
        return {"type": "tool-input-error", **chunk, "input": call.arguments, "errorText": wrong}
    return {"type": "tool-input-available", **chunk, "input": value}


def _output(event: ToolResultAdded) -> Chunk:
    result = event.result
    chunk: Chunk = {"toolCallId": result.call_id, "dynamic": True}
    if result.is_error:
        return {"type": "tool-output-error", **chunk, "errorText": result.text}
    if result.images:
        images = [{"mediaType": image.media_type, "data": image.data} for image in result.images]
        return {"type": "tool-output-available", **chunk, "output": {"text": result.text, "images": images}}
    return {"type": "tool-output-available", **chunk, "output": result.text}


def _data(name: str, /, **fields: Any) -> Chunk:
    return {"type": f"data-{name}", "data": fields, "transient": True}
