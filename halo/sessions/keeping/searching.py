"""Searches what was said in sessions: each log is read line by line, and memory holds one event of it.

The bytes of an event are looked at first: where a plain text is looked for that stands in JSON as it is, an
event without it is not even decoded.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from halo.errors import UsageError
from halo.files.log import LogLine, read_log
from halo.records.events import Event, MessageAdded, ToolResultAdded
from halo.records.messages import Text, ToolCall
from halo.sessions.attachments import fetch
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread, payload_of, read_events

ROLES = ("user", "assistant", "tool")
_ATTACHED = b'"attachment":'


class Query(NamedTuple):
    """What is looked for. `plain` are bytes that every event with a match holds; empty: any may have one."""

    pattern: re.Pattern[str]
    roles: frozenset[str] = frozenset(ROLES)
    plain: bytes = b""
    ignore_case: bool = False

    def may_match(self, data: bytes) -> bool:
        """Tell whether it is worth decoding these bytes."""
        if self.plain in data:
            return True
        return self.ignore_case and (not data.isascii() or self.plain.lower() in data.lower())


class Match(msgspec.Struct, frozen=True):
    """A line with a match: in which turn and event, who wrote it, and its number in the message, from 1.

    `start` and `end` are where the first match stands in `text`, the line.
    """

    session: str
    turn: int
    event: int
    at: str
    role: str
    line: int
    text: str
    start: int
    end: int


def query_of(text: str, *, regex: bool, ignore_case: bool, roles: frozenset[str]) -> Query:
    """Make a query. Raises `UsageError` for a pattern that is none, and for an empty one."""
    if not text:
        raise UsageError("there is nothing to look for: the text is empty")
    flags = re.IGNORECASE if ignore_case else 0
    try:
        pattern = re.compile(text if regex else re.escape(text), flags)
    except re.error as error:
        raise UsageError(
            f"this is no regular expression: {error}", hint="without --regex it is looked for as it is"
        ) from error
    return Query(pattern, roles or frozenset(ROLES), b"" if regex else _as_in_json(text), ignore_case)


def _as_in_json(text: str) -> bytes:
    """Return the text as it stands in every JSON; empty where there are several ways to write it."""
    plain = text.isascii() and text.isprintable() and not set(text) & set('"\\/')
    return text.encode() if plain else b""


def matches(folder: SessionFolder, query: Query) -> Iterator[Match | Unread]:
    """Yield the lines of a session that match, and what of its log cannot be read. Raises `LogError`."""
    for line in read_log(folder.events):
        if line.record is not None and _ATTACHED not in line.record and not query.may_match(line.record):
            continue
        for found in _events(folder, line):
            if isinstance(found, Unread):
                yield found
            else:
                yield from _in_event(folder.id, found, query)


def _events(folder: SessionFolder, line: LogLine) -> Iterator[Event | Unread]:
    return read_events([line], lambda data: fetch(folder.path, data))


def _in_event(session_id: str, event: Event, query: Query) -> Iterator[Match]:
    for role, text in _texts(event):
        if role not in query.roles:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            match = query.pattern.search(line)
            if match is not None:
                yield Match(
                    session_id,
                    event.turn,
                    event.seq,
                    event.ts,
                    role,
                    number,
                    line,
                    match.start(),
                    match.end(),
                )


def _texts(event: Event) -> Iterator[tuple[str, str]]:
    match payload_of(event).data:
        case MessageAdded() as added if added.typed:
            yield "user", added.typed
        case MessageAdded() as added if not added.internal:
            yield from _said(added)
        case ToolResultAdded() as answer:
            yield "tool", answer.result.text


def _said(added: MessageAdded) -> Iterator[tuple[str, str]]:
    for block in added.message.content:
        if isinstance(block, Text):
            yield added.message.role, block.text
        elif isinstance(block, ToolCall):
            yield "tool", f"{block.name} {block.arguments}"
