"""Folds a session's log into the conversation. Pure: events in, state out.

A call and its results are one unit: results without a call are left out, a call whose result is lost
gets one that says so.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from halo.files.log import LogLine
from halo.records.events import (
    ContextShortened,
    Event,
    EventData,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageLost,
    UsageReported,
)
from halo.records.messages import Message, ToolResult
from halo.records.session_events import SessionCreated
from halo.records.usage import Usage
from halo.runner.calls import fresh_ids
from halo.runner.record import History, applied
from halo.sessions.headings import without_heading
from halo.sessions.reading import Fetch, Unread, payload_of, read_events
from halo.sessions.related import misnamed, unrelated
from halo.sessions.standing import Standing

LOST_RESULT = "The result of this call was lost."


class LastCall(NamedTuple):
    """The last model call: its figures, when they were recorded (ISO 8601), the artifact of its turn."""

    reported: UsageReported
    at: str
    artifact: str


class _Counted(NamedTuple):
    """The tokens of the first `messages` and of the prefix of `artifact`, as a provider counted them."""

    tokens: int
    messages: int
    artifact: str


class Conversation:
    """What a session's log says, as far as it has been folded.

    `opening` is the user's first message, as it was typed. `calls`, `cost` and `seconds` (of turns) are what
    it has used; `unpriced` counts calls without a price, `expected` the tokens that should have come from the
    provider's cache. `damaged` says what was lost; `newer` what a later version of Halo wrote and this one
    cannot read. `standing` is what is set for the session, and to whom it is related.
    """

    def __init__(self) -> None:
        self.created: SessionCreated | None = None
        self.created_at = ""
        self.updated_at = ""
        self.seq = 0
        self.turn = 0
        self.open_turn = False
        self.started: TurnStarted | None = None
        self.ended: TurnEnded | None = None
        self.opening = ""
        self.messages: list[Message] = []
        self.open_calls: dict[str, str] = {}
        self.usage = Usage()
        self.calls = 0
        self.cost = 0.0
        self.currency = ""
        self.unpriced = 0
        self.expected = 0
        self.seconds = 0.0
        self.model = ""
        self.last_call: LastCall | None = None
        self.damaged: list[str] = []
        self.newer: list[str] = []
        self.standing = Standing()
        self._results: list[ToolResult] = []
        self._counted: _Counted | None = None
        self._began = ""
        self._unnumbered = 0  # lines since the last event whose numbers are not known
        self._lived = ""  # when the last event was recorded that nobody mended

    def add(self, event: Event) -> None:
        """Fold one event, with its payload in `data`. Types of a newer version only count."""
        self._count(event)
        data, newer = payload_of(event)
        if newer:
            self.newer.append(newer)
        if data is not None and misnamed(data):
            self.damaged.append(f"event {event.seq}: it names another session in a way that none is named")
            data = unrelated(data)
        if data is not None:
            self._fold(data, event)
            if self.created is not None and self._is_copy(event.seq):
                self.standing.add_copy(data, self.created.reason)
            else:
                self._spend(data, event)
                self.standing.add(data, event.ts, event.turn)
            if not (isinstance(data, (ToolResultAdded, TurnEnded)) and data.mended):
                self._lived = event.ts

    def miss(self, unread: Unread) -> None:
        """Note a line that cannot be used; if its envelope is whole, its number is taken all the same."""
        (self.newer if unread.newer else self.damaged).append(unread.problem)
        if unread.event is not None:
            self._count(unread.event)
        else:
            self._unnumbered += 1

    def _count(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            gap = gap_before(event.seq, self.seq, self._unnumbered)
            if gap:
                self.damaged.append(gap)
        self._unnumbered = 0
        self.seq = max(self.seq, event.seq)
        self.turn = max(self.turn, event.turn)
        if not self._is_copy(event.seq):
            self.updated_at = event.ts

    def _is_copy(self, seq: int) -> bool:
        """Tell whether an event came from another session: nothing in it was done, or paid, here."""
        return self.created is not None and seq <= self.created.copied

    def _fold(self, data: EventData, event: Event) -> None:
        match data:
            case SessionCreated():
                self.created, self.created_at = data, event.ts
            case TurnStarted():
                self.started, self.open_turn, self.ended = data, True, None
                self._began = event.ts
                if self.created is None and data.session is not None:
                    self.created, self.created_at = data.session, event.ts
            case MessageAdded():
                # Ids are unique in what Halo writes; in whatever else a log may hold, each call is still one.
                message = fresh_ids(data.message, ())
                self._close_calls()
                if message.role == "user" and not self.opening and not data.internal:
                    self.opening = without_heading(data.typed or message.text, data.sources)
                self.messages.append(message)
                self.open_calls = {call.id: call.name for call in message.calls}
            case ToolResultAdded():
                if self.open_calls.pop(data.result.call_id, None) is not None:
                    self._results.append(data.result)
            case ContextShortened():
                self._shorten(data, event)
            case UsageReported():
                self.model = data.model
                self._call(data, event)
            case TurnEnded():
                self.ended, self.open_turn = data, False

    def _spend(self, data: EventData, event: Event) -> None:
        """Add up what was used: of model calls, of attempts that failed, and time."""
        match data:
            case UsageReported():
                self.usage, self.cost = self.usage + data.usage, self.cost + (data.cost or 0.0)
                self.calls += 1
                self.unpriced += data.cost is None
                self.currency = data.currency or self.currency
                self.expected += data.expected
            case UsageLost():
                self.usage, self.cost = self.usage + data.usage, self.cost + (data.cost or 0.0)
                self.currency = data.currency or self.currency
            case TurnEnded():
                # Whoever mends a turn may come days after it.
                self.seconds += _between(self._began, self._lived if data.mended else event.ts)

    @property
    def began(self) -> str:
        """When the last turn began (ISO 8601); empty before the first."""
        return self._began

    def _call(self, reported: UsageReported, event: Event) -> None:
        """Take over what a call says of the history that it was sent: of a turn's own, not one beside it."""
        if not self.open_turn:
            return  # for a summary, or notes, when the turn was over
        artifact = self.started.artifact if self.started else ""
        self.last_call = LastCall(reported, event.ts, artifact)
        # The figures of a summary are about another request: no reply stands before them.
        answered = not self._results and self.messages and self.messages[-1].role == "assistant"
        if reported.usage.prompt and answered:
            tokens = reported.usage.prompt + reported.usage.output
            self._counted = _Counted(tokens, len(self.messages), artifact)

    def _shorten(self, shortened: ContextShortened, event: Event) -> None:
        """Make the edits. What was lost before them may have moved everything: then they do not fit."""
        self.last_call = None  # what it sent is not the beginning of what will be sent
        self._counted = None
        self._close_calls()
        try:
            self.messages = _shortened(self.messages, shortened)
        except ValueError as error:
            self.damaged.append(f"event {event.seq}: the shortened history does not fit: {error}")

    def _close_calls(self) -> None:
        """Put the results so far behind their calls: nothing can answer these calls any more."""
        if not self.open_calls and not self._results:
            return
        self.messages.extend(self._answers())
        self.open_calls, self._results = {}, []

    def _answers(self) -> tuple[Message, ...]:
        """Make the message with the results of the last calls; calls without one get an error."""
        lost = [ToolResult(call, LOST_RESULT, is_error=True) for call in self.open_calls]
        return (Message("user", (*self._results, *lost)),) if self._results or lost else ()

    def history(self) -> tuple[Message, ...]:
        """Return the messages so far, every call with its result. Changes nothing."""
        return (*self.messages, *self._answers())

    def record(self, artifact: str) -> History:
        """Return the history for a turn from `artifact`, with what a provider has counted of it."""
        history = History(self.history())
        if self._counted is not None and self._counted.artifact == artifact:
            history.measured(self._counted.tokens, self._counted.messages)
        return history


def gap_before(seq: int, last: int, unnumbered: int) -> str:
    """Say what is wrong with the number of an event behind the one numbered `last`; empty if nothing is.

    `unnumbered` lines between the two cannot be read: that something is missing there is known already.
    """
    if seq <= last:
        return f"event {seq} stands behind event {last}: its number was there before"
    missing = seq - last - 1
    if missing <= unnumbered:
        return ""
    return f"event {last + 1} is missing" if missing == 1 else f"events {last + 1} to {seq - 1} are missing"


def _shortened(messages: list[Message], shortened: ContextShortened) -> list[Message]:
    """Return the messages with the edits made. Raises ValueError for edits of another history."""
    before = shortened.messages_before
    if before is not None and before != len(messages):
        raise ValueError(f"it was made of {before} messages, and {len(messages)} are left")
    shorter = applied(tuple(messages), shortened.edits)
    if _whole(messages) and not _whole(shorter):
        raise ValueError("it parts calls and results")
    return [*shorter]


def _whole(messages: Sequence[Message]) -> bool:
    """Tell whether every message with calls has their results right behind it, and no result is elsewhere."""
    wanted: set[str] = set()
    for message in messages:
        results = {block.call_id for block in message.content if isinstance(block, ToolResult)}
        if results != wanted:
            return False
        wanted = {call.id for call in message.calls}
    return not wanted


def _between(began: str, ended: str) -> float:
    """Return the seconds between two stamps; 0 where one is missing, damaged or later than the other."""
    try:
        return max(0.0, (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def fold(lines: Iterable[LogLine], fetch: Fetch = bytes) -> Conversation:
    """Fold a whole log; `fetch` reads attachments (without it there are none)."""
    conversation = Conversation()
    for found in read_events(lines, fetch):
        if isinstance(found, Unread):
            conversation.miss(found)
        else:
            conversation.add(found)
    return conversation
