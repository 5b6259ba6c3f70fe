"""A session as people read it: turns, who said what, what tools did, figures. Pure; no format yet."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from halo.files.visible import visible
from halo.records.events import (
    Event,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageLost,
    UsageReported,
)
from halo.records.headers import Header
from halo.records.incoming import Sender
from halo.records.messages import Image, Message, Text, ToolCall
from halo.records.usage import Usage
from halo.sessions.derived import render
from halo.sessions.exchange.masking import Mask
from halo.sessions.reading import Unread, payload_of


class Spoken(NamedTuple):
    """What somebody said. `given` is what the model was given in its place, empty where it is the same."""

    who: str
    text: str
    pictures: tuple[Image, ...] = ()
    given: str = ""
    partial: bool = False


class ToolUse(NamedTuple):
    """A call of a tool; `result` is None where it has none."""

    tool: str
    arguments: str
    result: str | None = None
    is_error: bool = False
    pictures: tuple[Image, ...] = ()


class Remark(NamedTuple):
    """Something that happened between messages, as Markdown on one line."""

    text: str


Entry = Spoken | ToolUse | Remark


class Figures(NamedTuple):
    """What model calls used; `unpriced` of them have no price, `failed` are attempts that came to nothing."""

    calls: int = 0
    failed: int = 0
    usage: Usage = Usage()
    costs: tuple[tuple[str, float], ...] = ()
    unpriced: int = 0

    def plus(self, usage: Usage, cost: float | None, currency: str, *, failed: bool) -> "Figures":
        """Add a call, or an attempt that failed."""
        costs = dict(self.costs)
        if cost is not None:
            costs[currency] = costs.get(currency, 0.0) + cost
        return Figures(
            self.calls + (not failed),
            self.failed + failed,
            self.usage + usage,
            tuple(costs.items()),
            self.unpriced + (cost is None),
        )

    @property
    def text(self) -> str:
        """In words; empty for nothing."""
        if not (self.calls or self.failed):
            return ""
        usage = self.usage
        parts = [f"{self.calls:,} model call{'' if self.calls == 1 else 's'}"]
        if self.failed:
            parts.append(f"{self.failed:,} that failed")
        cached = f" ({usage.read:,} from a cache)" if usage.read else ""
        parts += [f"{usage.prompt:,} tokens sent{cached}", f"{usage.output:,} produced"]
        parts += [f"{cost:.4f} {visible(currency)}".rstrip() for currency, cost in self.costs]
        if self.unpriced and self.costs:
            parts.append(f"{self.unpriced:,} without a price")
        return ", ".join(parts)


class TurnText(NamedTuple):
    """A turn: its number, 0 for what came before the first one, when it began, what was said and done."""

    turn: int
    at: str
    entries: tuple[Entry, ...]
    figures: Figures


class Document(NamedTuple):
    """A whole session, or some of its turns."""

    header: Header
    turns: tuple[TurnText, ...]
    figures: Figures


def document_of(
    header: Header, found: Iterable[Event | Unread], mask: Mask, *, tools: bool = True
) -> Document:
    """Make the document of what a log holds. What Halo itself asked, and was answered, is left out."""
    header = msgspec.structs.replace(header, title=mask(header.title))
    writing = _Writing(mask, tools=tools)
    for each in found:
        writing.add(each)
    return Document(header, writing.turns(), writing.total)


class _Writing:
    """Collects turns from events in order."""

    def __init__(self, mask: Mask, *, tools: bool) -> None:
        self.total = Figures()
        self._mask, self._tools = mask, tools
        self._done: list[TurnText] = []
        self._turn, self._at = 0, ""
        self._entries: list[Entry] = []
        self._figures = Figures()
        self._calls: dict[str, int] = {}  # where the calls without a result stand

    def turns(self) -> tuple[TurnText, ...]:
        self._end()
        return tuple(self._done)

    def _end(self) -> None:
        if self._entries or self._figures != Figures():
            self._done.append(TurnText(self._turn, self._at, tuple(self._entries), self._figures))
        self._entries, self._figures, self._calls = [], Figures(), {}

    def add(self, found: Event | Unread) -> None:
        if isinstance(found, Unread):
            self._remark(found)
            return
        data = payload_of(found).data
        match data:
            case TurnStarted():
                self._end()
                self._turn, self._at = found.turn, found.ts
            case MessageAdded():
                self._message(data)
            case ToolResultAdded():
                self._result(data)
            case UsageReported():
                self._count(data.usage, data.cost, data.currency, failed=False)
            case UsageLost():
                self._count(data.usage, data.cost, data.currency, failed=True)
            case _:
                self._remark(found)

    def _count(self, usage: Usage, cost: float | None, currency: str, *, failed: bool) -> None:
        self._figures = self._figures.plus(usage, cost, currency, failed=failed)
        self.total = self.total.plus(usage, cost, currency, failed=failed)

    def _remark(self, found: Event | Unread) -> None:
        """Add what the transcript says of an event, too."""
        data = None if isinstance(found, Unread) else payload_of(found).data
        text = " ".join(self._mask(render(found)).split())
        if text and (self._tools or isinstance(data, TurnEnded) or data is None):
            self._entries.append(Remark(text))

    def _message(self, added: MessageAdded) -> None:
        message = added.message
        if added.internal:
            return
        text = self._mask(added.typed or _words(message))
        pictures = tuple(block for block in message.content if isinstance(block, Image))
        if text.strip() or pictures or added.partial:
            given = self._mask(message.text) if added.typed else ""
            self._entries.append(Spoken(_who(added), text, pictures, given, added.partial))
        for call in message.calls:
            self._call(call)

    def _call(self, call: ToolCall) -> None:
        if self._tools:
            self._calls[call.id] = len(self._entries)
            self._entries.append(ToolUse(self._mask(call.name), self._mask(call.arguments)))

    def _result(self, added: ToolResultAdded) -> None:
        place = self._calls.pop(added.result.call_id, None)
        if place is None:
            return  # of a call that is not shown
        call = self._entries[place]
        assert isinstance(call, ToolUse)  # noqa: S101  # that is what stands there
        result = added.result
        self._entries[place] = call._replace(
            result=self._mask(result.text), is_error=result.is_error, pictures=result.images
        )


def _words(message: Message) -> str:
    return "\n\n".join(b.text for b in message.content if isinstance(b, Text) and b.text.strip())


def _who(added: MessageAdded) -> str:
    if added.message.role == "assistant":
        return "Assistant"
    if not added.sources:
        return "User"
    return ", ".join(dict.fromkeys(_sender(source.sender) for source in added.sources))


def _sender(sender: Sender) -> str:
    match sender.kind:
        case "agent":
            return f"Session {sender.session} (agent {sender.agent})"
        case "report":
            return f"Report of session {sender.session}"
        case "event":
            return "Event"
    return f"User ({sender.name})" if sender.name else "User"
