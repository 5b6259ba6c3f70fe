"""Gathers what there is to say of one session: how it stands, its turns, its relatives, its folder."""

import os
from typing import NamedTuple

import msgspec

from halo.records.events import MessageAdded, TurnEnded, TurnStarted, UsageReported
from halo.records.headers import Header
from halo.records.usage import Usage
from halo.sessions.attachments import FOLDER as ATTACHMENTS
from halo.sessions.derived import header_of
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.keeping.families import Branch, family
from halo.sessions.keeping.listing import Entry, View, entry_of
from halo.sessions.reading import Unread, payload_of

_OPENING = 80  # characters of what a turn began with


class TurnRow(msgspec.Struct, omit_defaults=True):
    """A turn: when it began, why it ended (empty: it has not), its model calls, what it began with."""

    turn: int
    at: str
    reason: str = ""
    error: str = ""
    calls: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    message: str = ""


class Size(NamedTuple):
    """How much something takes on disk."""

    files: int
    bytes: int


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about a session. `children` is the whole tree below it, in order.

    `damaged` says what of the log is lost, `newer` what a later version of Halo wrote.
    """

    session: Entry
    header: Header
    turns: tuple[TurnRow, ...]
    children: tuple[tuple[int, Entry], ...]
    events: int
    attachments: Size
    damaged: tuple[str, ...]
    newer: tuple[str, ...]
    reason: str = ""


def show(view: View, folder: SessionFolder) -> Shown:
    """Read the log of a session. Raises `LogError` when it cannot be read."""
    conversation, turns, events = _read(folder)
    header = header_of(folder.id, conversation, log_bytes=os.lstat(folder.events).st_size)
    created = conversation.created
    relatives: list[Branch] = family(view.sessions, header)[1:]
    return Shown(
        session=entry_of(view, header),
        header=header,
        turns=tuple(turns),
        children=tuple((branch.depth, entry_of(view, branch.header)) for branch in relatives),
        events=events,
        attachments=size_of(os.path.join(folder.path, ATTACHMENTS)),
        damaged=tuple(conversation.damaged),
        newer=tuple(conversation.newer),
        reason=created.reason if created is not None else "",
    )


def _read(folder: SessionFolder) -> tuple[Conversation, list[TurnRow], int]:
    conversation = Conversation()
    turns: list[TurnRow] = []
    events = 0
    for event in folder.read_events():
        if isinstance(event, Unread):
            conversation.miss(event)
            continue
        events += 1
        conversation.add(event)
        match payload_of(event).data:
            case TurnStarted():
                turns.append(TurnRow(event.turn, event.ts))
            case TurnEnded() as ended if turns:
                turns[-1].reason, turns[-1].error = ended.reason, ended.error
            case UsageReported() as used if turns:
                turns[-1].calls += 1
                turns[-1].usage += used.usage
                turns[-1].cost += used.cost or 0.0
            case MessageAdded() as added if turns and added.message.role == "user" and not added.internal:
                turns[-1].message = turns[-1].message or _beginning(added.typed or added.message.text)
    return conversation, turns, events


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _OPENING else line[: _OPENING - 1] + "…"


def size_of(folder: str) -> Size:
    """Count the files of a folder and their bytes; links are counted, not followed."""
    files = count = 0
    for path, _folders, names in os.walk(folder):
        for name in names:
            try:
                count += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                continue  # taken meanwhile
            files += 1
    return Size(files, count)
