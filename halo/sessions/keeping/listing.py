"""Chooses the sessions that a list shows, and what it says of each."""

import heapq
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

import msgspec

from halo.records.headers import Header
from halo.sessions.delegation.rows import Row, active, kind_of, row_of
from halo.sessions.find import session_seal
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import month_of
from halo.sessions.inbox.folder import Inbox
from halo.sessions.index.lookup import headers_with, listed
from halo.sessions.keeping.archived import MINUTES, is_archived
from halo.sessions.routing.finding import is_held


class Wanted(NamedTuple):
    """Which sessions: of an agent, of kinds (all where empty), changed since, of a key, archived ones too."""

    agent: str = ""
    kinds: frozenset[str] = frozenset()
    since: datetime | None = None
    key: str = ""
    archived: bool = False


class Listing(NamedTuple):
    """What was found, what changed last first; how many more there are; which could not be read, and why."""

    headers: list[Header]
    more: int
    unreadable: list[str]


class Entry(Row, frozen=True, omit_defaults=True):
    """A row, with what only the user of this machine is told: what waits, and whose it is.

    `foreign`: it was begun elsewhere and came with the folder.
    """

    waiting: int = 0
    foreign: bool = False


class View(NamedTuple):
    """What it takes to say how sessions stand: their folder, Halo's home and its key, the time.

    `minutes` after its report a session that an agent started is archived.
    """

    sessions: str
    home: str
    key: bytes | None
    now: datetime
    minutes: float = MINUTES

    def archived(self, header: Header) -> bool:
        """Tell whether a session is put away."""
        return is_archived(header, self.now, self.minutes)


def list_sessions(view: View, wanted: Wanted, limit: int) -> Listing:
    """Find sessions; of many the `limit` that changed last (0: all)."""
    unreadable: list[str] = []
    found = _chosen(view, wanted, _all(view.sessions, wanted.key, unreadable))
    order = attrgetter("updated_at", "id")
    if not limit:
        return Listing(sorted(found, key=order, reverse=True), 0, unreadable)
    count = 0

    def counted() -> Iterator[Header]:
        nonlocal count
        for count, header in enumerate(found, 1):  # noqa: B007  # read below
            yield header

    headers = heapq.nlargest(limit, counted(), key=order)
    return Listing(headers, count - len(headers), unreadable)


def _all(sessions: str, key: str, unreadable: list[str]) -> Iterator[Header]:
    if key:
        yield from headers_with(sessions, key=key)
        return
    for found in listed(sessions):
        if found.header is not None:
            yield found.header
        else:
            unreadable.append(f"{found.id} ({found.problem})")


def _chosen(view: View, wanted: Wanted, headers: Iterable[Header]) -> Iterator[Header]:
    if wanted.agent:
        headers = (header for header in headers if header.agent == wanted.agent)
    if wanted.kinds:
        headers = (header for header in headers if kind_of(header) in wanted.kinds)
    if wanted.since is not None:
        headers = active(headers, wanted.since)
    if not wanted.archived:
        headers = (header for header in headers if not view.archived(header))
    return iter(headers)


def entry_of(view: View, header: Header) -> Entry:
    """Say how a session stands, which takes a look at its folder."""
    folder = SessionFolder(view.sessions, header.id)
    row = row_of(
        header,
        running=runs(folder, header),
        archived=view.archived(header),
        path=f".halo/sessions/{month_of(header.id)}/{header.id}",
    )
    return Entry(
        **msgspec.structs.asdict(row),
        waiting=Inbox(folder.path).count(),
        foreign=view.key is None or header.seal != session_seal(view.key, header.id),
    )


def runs(folder: SessionFolder, header: Header) -> bool:
    """Tell whether a turn runs: one is open, and a process holds the session."""
    if header.ended or not header.turns:
        return False
    with suppress(OSError):  # a folder that may not be written to: nothing runs in there
        return is_held(folder)
    return False
