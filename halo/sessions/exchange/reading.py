"""Reads a session whole, as it leaves for another place."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from halo.errors import LogError, UsageError
from halo.records.events import NAMES, TYPES, Event
from halo.records.headers import Header
from halo.records.session_events import SessionCreated
from halo.sessions.attachments import fetch
from halo.sessions.derived import header_of
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.reading import Unread, payload_of

_BEGINNING = NAMES[SessionCreated]
_SPAN = re.compile(r"(?P<first>[1-9][0-9]{0,8})?(?P<dash>-)?(?P<last>[1-9][0-9]{0,8})?\Z")


class Whole(NamedTuple):
    """A session: what its log holds in order, events with their attachments.

    `header` is that of the whole conversation, what was copied from another session included. `damaged` says
    what is lost, `newer` what a later version of Halo wrote and this one cannot read.
    """

    folder: SessionFolder
    header: Header
    found: tuple[Event | Unread, ...]
    damaged: tuple[str, ...]
    newer: tuple[str, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that can be read."""
        return tuple(each for each in self.found if isinstance(each, Event))


def read_whole(folder: SessionFolder) -> Whole:
    """Read a session. Raises `LogError` where its log cannot be read, or says nothing at all."""
    found = tuple(_with_attachment(folder, each) for each in folder.read_events())
    conversation = folded(found)
    if not any(isinstance(each, Event) for each in found):
        raise LogError("no line of it can be read", file=folder.events, hint="halo session repair")
    header = header_of(folder.id, conversation, log_bytes=0)
    # A seal is a proof for this machine alone.
    header = msgspec.structs.replace(header, seal="")
    return Whole(folder, header, found, tuple(conversation.damaged), tuple(conversation.newer))


def folded(found: Iterable[Event | Unread]) -> Conversation:
    """Fold what a log holds; also what was copied from another session counts as this one's own."""
    conversation = Conversation()
    for each in found:
        if isinstance(each, Unread):
            conversation.miss(each)
        else:
            conversation.add(_as_own(each))
    return conversation


def _with_attachment(folder: SessionFolder, found: Event | Unread) -> Event | Unread:
    """Return an event of a type that this version does not know with its attachment, too."""
    if isinstance(found, Unread) or found.type in TYPES:
        return found
    data = bytes(found.data)
    try:
        payload = fetch(folder.path, data)
    except LogError as error:
        return Unread(f"event {found.seq}: {error}", found)
    return found if payload is data else msgspec.structs.replace(found, data=msgspec.Raw(payload))


def _as_own(event: Event) -> Event:
    """Return the beginning of a session as if nothing in it were a copy: all of it counts."""
    if event.type != _BEGINNING:
        return event
    created = payload_of(event).data
    if not isinstance(created, SessionCreated) or not created.copied:
        return event
    own = msgspec.structs.replace(created, copied=0)
    return msgspec.structs.replace(event, data=msgspec.Raw(msgspec.json.encode(own)))


class Span(NamedTuple):
    """Turns `first` to `last`, both included; `last` None: to the end."""

    first: int = 1
    last: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether it is every turn."""
        return self.first <= 1 and self.last is None

    def chosen(self, found: Iterable[Event | Unread]) -> tuple[Event | Unread, ...]:
        """Return what is of these turns; what belongs to no turn goes with the one before it."""
        kept: list[Event | Unread] = []
        turn = 0
        for each in found:
            event = each.event if isinstance(each, Unread) else each
            turn = max(turn, event.turn if event is not None else 0)
            if self.first <= max(turn, 1) and (self.last is None or turn <= self.last):
                kept.append(each)
        return tuple(kept)


def read_span(text: str) -> Span:
    """Read `A-B`, `A-`, `-B` or `A`. Raises `UsageError`."""
    match = _SPAN.match(text)
    if match is not None and (match["first"] or match["last"]):
        begin = int(match["first"] or 1)
        end = int(match["last"]) if match["last"] else None if match["dash"] else begin
        if end is None or end >= begin:
            return Span(begin, end)
    raise UsageError(f"these are no turns: {text!r}", hint="turns count from 1: 2-5, 3-, -4 or 7")
