"""The events of a turn as lines of JSON, for programs that read a turn as it runs (NDJSON). Pure."""

from typing import Any

import msgspec

from halo.models.adapter import Notice, Retrying, TextDelta, ThinkingDelta
from halo.records.events import NAMES
from halo.runner.turn import TurnEvent


def event_line(event: TurnEvent) -> bytes:
    """Render an event as one line: `type`, then its fields.

    What a session records has the type and the fields that it has in `events.jsonl`; what is only shown is
    `text`, `thinking`, `notice` or `retry` (all text since the last `message` is void).
    """
    match event:
        case TextDelta():
            return line("text", text=event.text)
        case ThinkingDelta():
            return line("thinking", text=event.text)
        case Notice():
            return line("notice", text=event.text)
        case Retrying():
            return line("retry", reason=event.reason, seconds=event.seconds, attempt=event.attempt)
        case _:
            return line(NAMES[type(event)], **msgspec.to_builtins(event))


def line(kind: str, /, **fields: Any) -> bytes:
    """Render one line of the stream."""
    return msgspec.json.encode({"type": kind, **fields}) + b"\n"
