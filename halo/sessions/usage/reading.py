"""Adds up what one session has used, from its log."""

import datetime as dt
import os

import msgspec

from halo.errors import LogError
from halo.files.log import read_log
from halo.records.events import NAMES, Event, EventData, TurnStarted, UsageLost, UsageReported
from halo.records.ledger import FORMAT, QUARTER, SessionSpending, Spending
from halo.records.session_events import SessionCreated
from halo.sessions.attachments import fetch
from halo.sessions.derived import read_header
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread, payload_of, read_events

_TOLD = frozenset(NAMES[kind] for kind in (SessionCreated, TurnStarted, UsageReported, UsageLost))
_Key = tuple[int, str, str, str]


def spending_of(folder: SessionFolder) -> SessionSpending:
    """Read what a session has used. What is copied from another session was used there.

    `problems` counts lines that cannot be read: what they say is missing. Raises OSError and `LogError`.
    """
    size = os.lstat(folder.events).st_size  # before it is read: what grows meanwhile is not known
    header = read_header(folder)
    reading = _Reading(folder)
    for found in read_events(read_log(folder.events), lambda data: data):  # of few events it is needed whole
        reading.take(found)
    return SessionSpending(
        FORMAT,
        folder.id,
        size,
        header.agent if header is not None else "",
        header.title if header is not None else "",
        header.root if header is not None else folder.id,
        tuple(reading.found.values()),
        reading.problems,
    )


class _Reading:
    def __init__(self, folder: SessionFolder) -> None:
        self._folder = folder
        self.found: dict[_Key, Spending] = {}
        self.problems = 0
        self._copied = 0
        self._fingerprint = ""

    def take(self, found: Event | Unread) -> None:
        if isinstance(found, Unread):
            self.problems += 1
        elif found.type in _TOLD:
            data = self._data(found)
            if isinstance(data, SessionCreated):
                self._copied = data.copied
            elif isinstance(data, TurnStarted):
                self._fingerprint = data.fingerprint
                if data.session is not None:  # the first event may be lost; each turn repeats it
                    self._copied = data.session.copied
            elif found.seq > self._copied:
                self._spend(data, found.ts)

    def _data(self, event: Event) -> EventData | None:
        try:
            payload = msgspec.Raw(fetch(self._folder.path, bytes(event.data)))
        except LogError:
            self.problems += 1
            return None
        data, newer = payload_of(msgspec.structs.replace(event, data=payload))
        self.problems += bool(newer)
        return data

    def _spend(self, data: EventData | None, ts: str) -> None:
        if isinstance(data, UsageReported):
            calls, failed = 1, 0
        elif isinstance(data, UsageLost):
            calls, failed = 0, 1
        else:
            return
        model = f"{data.provider}/{data.model}"
        key = (_quarter(ts), model, self._fingerprint, data.currency)
        before = self.found.get(key, Spending(*key))
        self.found[key] = Spending(
            *key,
            calls=before.calls + calls,
            failed=before.failed + failed,
            usage=before.usage + data.usage,
            cost=before.cost + (data.cost or 0.0),
            unpriced=before.unpriced + (data.cost is None),
        )


def _quarter(ts: str) -> int:
    """Return the quarter of an hour of a time; the first one of all for what is none."""
    try:
        return int(dt.datetime.fromisoformat(ts).timestamp() // QUARTER)
    except (ValueError, OverflowError):
        return 0
