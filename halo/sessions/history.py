"""Folds a session's log into the conversation. Pure: events in, state out.

A call and its results are one unit: results without a call are left out, a call whose result is lost
gets one that says so.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from halo.files.log import LogLine
from halo.records.events import (
    FORMAT,
    TYPES,
    Event,
    EventData,
    MessageAdded,
    SessionCreated,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from halo.records.messages import Message, ToolResult
from halo.records.usage import Usage

LOST_RESULT = "The result of this call was lost."

T = TypeVar("T")


class Conversation:
    """What a session's log says, as far as it has been folded."""

    def __init__(self) -> None:
        self.created: SessionCreated | None = None
        self.created_at = ""
        self.updated_at = ""
        self.seq = 0
        self.turn = 0
        self.open_turn = False
        self.started: TurnStarted | None = None
        self.ended: TurnEnded | None = None
        self.messages: list[Message] = []
        self.open_calls: dict[str, str] = {}
        self.usage = Usage()
        self.model = ""
        self.damaged: list[int] = []
        self._results: list[ToolResult] = []

    def add(self, event: Event) -> None:
        """Fold one event. Types and formats of a newer version only count."""
        self.seq = max(self.seq, event.seq)
        self.turn = max(self.turn, event.turn)
        self.updated_at = event.ts
        kind = TYPES.get(event.type)
        if kind is None or event.format > FORMAT:
            return
        try:
            data: EventData = msgspec.json.decode(event.data, type=kind)
        except msgspec.MsgspecError:
            self.damaged.append(event.seq)
            return
        self._fold(data, event)

    def _fold(self, data: EventData, event: Event) -> None:
        match data:
            case SessionCreated():
                self.created, self.created_at = data, event.ts
            case TurnStarted():
                self.started, self.open_turn, self.ended = data, True, None
            case MessageAdded():
                self._close_calls()
                self.messages.append(data.message)
                self.open_calls = {call.id: call.name for call in data.message.calls}
            case ToolResultAdded():
                if self.open_calls.pop(data.result.call_id, None) is not None:
                    self._results.append(data.result)
            case UsageReported():
                self.usage, self.model = self.usage + data.usage, data.model
            case TurnEnded():
                self.ended, self.open_turn = data, False

    def _close_calls(self) -> None:
        """Put the results so far behind their calls; calls without one get an error."""
        self._results += [ToolResult(call, LOST_RESULT, is_error=True) for call in self.open_calls]
        self.open_calls = {}
        if self._results:
            self.messages.append(Message("user", tuple(self._results)))
            self._results = []

    def history(self) -> tuple[Message, ...]:
        """Return the messages so far, every call with its result."""
        self._close_calls()
        return tuple(self.messages)


def decode_events(lines: Iterable[LogLine], damaged: list[int]) -> Iterable[Event]:
    """Decode log lines; the numbers of damaged ones are added to `damaged`."""
    for line in lines:
        if line.record is None:
            damaged.append(line.number)
            continue
        try:
            yield msgspec.json.decode(line.record, type=Event)
        except msgspec.MsgspecError:
            damaged.append(line.number)


def fold(lines: Iterable[LogLine]) -> Conversation:
    """Fold a whole log."""
    conversation = Conversation()
    for event in decode_events(lines, conversation.damaged):
        conversation.add(event)
    return conversation
