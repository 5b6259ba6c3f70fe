"""Makes turns of an array of messages: events as a log has them, every call with one result. Pure."""

from typing import NamedTuple

import msgspec

from halo.records.events import (
    FORMAT,
    NAMES,
    Event,
    EventData,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
)
from halo.records.messages import Block, Message, ToolResult
from halo.runner.calls import call_ids, fresh_ids
from halo.sessions.exchange.taking import Taken

NO_RESULT = "The file that this conversation was imported from has no result of this call."


class Turned(NamedTuple):
    """The events of an imported conversation, not numbered yet, and what was not taken over."""

    events: tuple[Event, ...]
    turns: int
    remarks: tuple[str, ...]


def turns_of(taken: Taken, at: str) -> Turned:
    """Make turns of messages: one begins where the user speaks after an answer. `at` is the time of all."""
    turning = _Turning(at)
    for place, message in taken.messages:
        turning.take(place, message)
    turning.end()
    return Turned(tuple(turning.events), turning.turn, (*taken.remarks, *turning.remarks))


class _Turning:
    def __init__(self, at: str) -> None:
        self.events: list[Event] = []
        self.remarks: list[str] = []
        self.turn = 0
        self._at = at
        self._ids: set[str] = set()  # of all calls so far
        self._open: dict[str, str] = {}  # calls without a result, by their id: the tool
        self._named: dict[str, str] = {}  # the id in the array, of calls without a result: the id here
        self._answered = False  # the model has spoken in the turn
        self._place = 0

    def take(self, place: int, message: Message) -> None:
        if message.role == "assistant":
            self._close(place)
            self._assistant(message)
            self._place = place
            return
        rest: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolResult):
                self._result(place, block)
            else:
                rest.append(block)
        if rest:
            self._close(place)
            self._begin(anew=self._answered)
            self._add(MessageAdded(Message("user", tuple(rest))))

    def end(self) -> None:
        """End the last turn; calls that nobody has answered get a result that says so."""
        self._close(self._place)
        if self.turn:
            self._add(TurnEnded("done" if self._answered else "interrupted"))

    def _assistant(self, message: Message) -> None:
        self._begin(anew=False)
        fresh = fresh_ids(message, self._ids)
        self._ids |= call_ids((fresh,))
        self._add(MessageAdded(fresh))
        self._open = {call.id: call.name for call in fresh.calls}
        self._named = {}
        for call, renamed in zip(message.calls, fresh.calls, strict=True):
            self._named.setdefault(call.id, renamed.id)
        self._answered = True

    def _result(self, place: int, result: ToolResult) -> None:
        here = self._named.pop(result.call_id, "")
        tool = self._open.pop(here, None)
        if tool is None:
            self.remarks.append(f"message {place}: a result of no call, {result.call_id!r}, is left out")
            return
        self._add(ToolResultAdded(msgspec.structs.replace(result, call_id=here), tool))

    def _close(self, place: int) -> None:
        """Answer the calls that have no result: whoever speaks next ends them."""
        for here, tool in self._open.items():
            self.remarks.append(f"message {place}: the call of {tool} before it has no result")
            self._add(ToolResultAdded(ToolResult(here, NO_RESULT, is_error=True), tool, mended=True))
        self._open, self._named = {}, {}

    def _begin(self, *, anew: bool) -> None:
        if self.turn and not anew:
            return
        if self.turn:
            self._add(TurnEnded("done"))
        self.turn += 1
        self._answered = False
        self._add(TurnStarted("", ""))

    def _add(self, data: EventData) -> None:
        payload = msgspec.Raw(msgspec.json.encode(data))
        self.events.append(Event(FORMAT, 0, self._at, NAMES[type(data)], self.turn, payload))
