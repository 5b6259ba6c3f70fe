"""Puts the log of a new session there as a whole: events of another one, under a beginning of its own."""

import secrets
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from halo.errors import HaloError
from halo.files import ops
from halo.files.atomic import temporary_beside
from halo.files.log import CheckedLog
from halo.files.regular import refuse_links
from halo.files.seal import machine_key
from halo.records.events import FORMAT, NAMES, Event, TurnStarted
from halo.records.session_events import SessionCreated, SessionTarget
from halo.records.targets import AgentTarget
from halo.sessions.attachments import put_aside
from halo.sessions.beginning import Relation
from halo.sessions.derived import write_derived
from halo.sessions.find import session_seal
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import month_of, new_session_id, timestamp

_BEGINNING = NAMES[SessionCreated]
_STARTED = NAMES[TurnStarted]


class Beginning(msgspec.Struct, frozen=True):
    """How the new session begins: whom it is with, who made it, from which other and how many turns of it."""

    target: AgentTarget
    origin: str
    previous: str
    reason: str
    turns: int


def lay_down(
    sessions: str, home: str, now_ns: Callable[[], int], beginning: Beginning, events: Iterable[Event]
) -> SessionFolder:
    """Make a session of copied events, and return its folder.

    The log appears whole or not at all, and is synced. Each event is as it was, its time included, but for
    its number; where a turn repeats how the session began, it says how this one did. An unfinished turn is
    ended as interrupted. `home` is Halo's home. Raises OSError and `LogError`.
    """
    copies = [event for event in events if event.type != _BEGINNING]
    folder = SessionFolder(sessions, new_session_id(now_ns(), secrets.token_bytes(6)))
    month = month_of(folder.id)
    refuse_links(sessions, month)
    folder.make()
    key = machine_key(home, make=True)
    created = SessionCreated(
        folder.id,
        SessionTarget.of(beginning.target),
        beginning.origin,
        session_seal(key, folder.id) if key is not None else "",
        **Relation(
            previous=beginning.previous,
            reason=beginning.reason,
            turns=beginning.turns,
            copied=1 + len(copies),
        )._asdict(),
    )
    first = Event(FORMAT, 1, timestamp(now_ns()), _BEGINNING, 0, msgspec.Raw(msgspec.json.encode(created)))
    _write(folder, [first, *copies], created)
    # Opening it ends an unfinished turn. The derived files can be made again at any time.
    with folder.open(now_ns) as session, suppress(OSError, HaloError):
        write_derived(session)
    return folder


def _write(folder: SessionFolder, events: list[Event], created: SessionCreated) -> None:
    temporary = temporary_beside(folder.events)
    try:
        with CheckedLog.open(temporary, create=True) as log:
            for number, event in enumerate(events, 1):
                data = _restarted(event, created) if event.type == _STARTED else _on_one_line(event)
                stored = msgspec.Raw(put_aside(folder.path, data))
                log.append(
                    msgspec.json.encode(msgspec.structs.replace(event, seq=number, data=stored)), sync=False
                )
            log.sync()
        ops.rename(temporary, folder.events)
    except BaseException:
        # There is no log yet, so nobody else knows of the folder.
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    ops.fsync_dir(folder.path)


def _on_one_line(event: Event) -> bytes:
    """Return the data of an event as it is, but for line breaks between its parts: a log has lines."""
    data = bytes(event.data)
    return msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data


def _restarted(event: Event, created: SessionCreated) -> bytes:
    """Return a `turn.started` that repeats the beginning of the new session, as each of its turns does."""
    started = msgspec.json.decode(event.data, type=TurnStarted)
    return msgspec.json.encode(msgspec.structs.replace(started, session=created))
