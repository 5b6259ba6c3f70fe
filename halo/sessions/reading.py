"""Reads the lines of a session's log: events with their payload, and what cannot be used of them.

Two things are told apart. *Damage* (a checksum that does not hold, an attachment that is missing) costs its
line alone. What is whole and still cannot be understood was written by a *newer* version of Halo: it is
shown as far as it goes, but the log is not written to (`halo.sessions.folder`), because going on without it
would leave a gap in the conversation that the newer version never meant.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from halo.errors import LogError
from halo.files.log import LogLine
from halo.records.events import FORMAT, TYPES, Event, EventData, MessageAdded
from halo.records.messages import Block, Message, Text

# From the data of an event to its payload; raises LogError (`halo.sessions.attachments.fetch`).
Fetch = Callable[[bytes], bytes]


class Unread(NamedTuple):
    """A line that cannot be used, and why; `event` is its envelope where that is whole."""

    problem: str
    event: Event | None = None
    newer: bool = False


class Payload(NamedTuple):
    """The decoded data of an event, None where this version cannot read it; `newer` says what it lacks."""

    data: EventData | None
    newer: str = ""


class _Format(msgspec.Struct):
    format: int


class _LooseMessage(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: tuple[msgspec.Raw, ...]


class _LooseAdded(msgspec.Struct):
    message: _LooseMessage
    partial: bool = False
    typed: str = ""


def read_events(lines: Iterable[LogLine], fetch: Fetch) -> Iterator[Event | Unread]:
    """Yield every event with its payload in `data`, and what cannot be used."""
    for line in lines:
        found = _envelope(line)
        yield found if isinstance(found, Unread) else _whole(found, fetch)


def _envelope(line: LogLine) -> Event | Unread:
    if line.record is None:
        return Unread(f"line {line.number}: {line.problem}")
    try:
        return msgspec.json.decode(line.record, type=Event)
    except (msgspec.MsgspecError, RecursionError) as error:
        newest = _format(line.record)
        if newest > FORMAT:
            return Unread(f"line {line.number} has format {newest}", newer=True)
        return Unread(f"line {line.number}: {error}")


def _format(record: bytes) -> int:
    try:
        return msgspec.json.decode(record, type=_Format).format
    except (msgspec.MsgspecError, RecursionError):
        return 0


def _whole(event: Event, fetch: Fetch) -> Event | Unread:
    if event.format > FORMAT:
        return Unread(f"event {event.seq} has format {event.format}", event, newer=True)
    if event.type not in TYPES:
        return event
    data = bytes(event.data)
    try:
        payload = fetch(data)
    except LogError as error:
        return Unread(f"event {event.seq}: {error}", event)
    return event if payload is data else msgspec.structs.replace(event, data=msgspec.Raw(payload))


def payload_of(event: Event) -> Payload:
    """Decode the data of an event. Types of a later version are None, which is nothing to worry about."""
    kind = TYPES.get(event.type)
    if kind is None:
        return Payload(None)
    try:
        return Payload(msgspec.json.decode(event.data, type=kind))
    except (msgspec.MsgspecError, RecursionError) as error:
        added = _loosely(event) if kind is MessageAdded else None
        return Payload(added, f"event {event.seq}: {error}")


def _loosely(event: Event) -> MessageAdded | None:
    """Decode a message with unknown blocks: readers see the rest, and its calls keep their results."""
    try:
        loose = msgspec.json.decode(event.data, type=_LooseAdded)
    except (msgspec.MsgspecError, RecursionError):
        return None
    content = tuple(_block(raw) for raw in loose.message.content)
    return MessageAdded(Message(loose.message.role, content), loose.partial, loose.typed)


def _block(raw: msgspec.Raw) -> Block:
    try:
        block: Block = msgspec.json.decode(raw, type=Block)
    except (msgspec.MsgspecError, RecursionError) as error:
        return Text(f"[a part that this version of Halo cannot read: {error}]")
    return block
