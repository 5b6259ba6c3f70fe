"""Repairs what was found wrong with sessions. No log loses a byte."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from halo.errors import HaloError
from halo.files import ops
from halo.records.headers import Header
from halo.sessions.derived import HEADER, read_header, write_derived
from halo.sessions.find import months, session_ids_of
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.ids import is_session_id
from halo.sessions.inbox.control import wanted_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark, marked, unmark
from halo.sessions.index.rows import NAME, read_rows, replace_all
from halo.sessions.keeping.damage import damage_of, write_report
from halo.sessions.keeping.deleting import DELETED
from halo.sessions.keeping.examining import RECENT, Examined, Finding, examine, leftovers


class Outcome(NamedTuple):
    """What was found of `name`, a session or a file; `failed`: what could not be done."""

    name: str
    findings: tuple[Finding, ...]
    failed: str = ""
    session: bool = False


def repair(
    sessions: str, ids: tuple[str, ...], now_ns: Callable[[], int], *, apply: bool
) -> Iterator[Outcome]:
    """Look at the sessions `ids`, or at all and at what they have in common, and with `apply` repair them.

    Every session that was looked at has an outcome. Without `apply` nothing is written.
    """
    now = now_ns() / 1e9
    for month in months(sessions):
        names = session_ids_of(sessions, month)
        wanted = [name for name in names if not ids or name in ids]
        headers: dict[str, Header] = {}
        held: set[str] = set()
        marks = frozenset(marked(sessions))
        rows = _rows(sessions, month)  # as they are before anything is repaired
        for name in wanted:
            examined = examine(SessionFolder(sessions, name), marks, now)
            yield _repaired(sessions, examined, now_ns, apply=apply)
            if examined.header is not None:
                headers[name] = examined.header
            if examined.held:
                held.add(name)
        if not ids:
            yield _index(sessions, month, _Month(rows, frozenset(names), headers, held), apply=apply)
            yield _remains(sessions, month, now, apply=apply)
    if not ids:
        yield _marks(sessions, apply=apply)


def _repaired(sessions: str, examined: Examined, now_ns: Callable[[], int], *, apply: bool) -> Outcome:
    folder, remedies = examined.folder, {finding.remedy for finding in examined.findings}
    if not apply or remedies <= {"none"}:
        return Outcome(folder.id, examined.findings, session=True)
    try:
        if remedies & {"mend", "derive", "report", "inbox", "leftovers"}:
            with folder.open(now_ns) as session:  # which mends what a dead process left
                _rewrite(session, report="report" in remedies, now=now_ns() / 1e9)
        if "mark" in remedies:
            mark(sessions, folder.id)
    except (HaloError, OSError) as error:
        return Outcome(folder.id, examined.findings, str(error), session=True)
    return Outcome(folder.id, examined.findings, session=True)


def _rewrite(session: OpenSession, *, report: bool, now: float) -> None:
    """Make everything beside the log of a held session what it should be."""
    folder = session.folder
    inbox = Inbox(folder.path)
    taken = session.conversation.standing.taken
    inbox.remove([waiting.name for waiting in inbox.waiting()[0] if waiting.message.id in taken])
    for path in leftovers(folder, now):
        ops.unlink(path)
    damage = damage_of(folder)
    if report or damage.lost:
        write_report(folder, damage)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder.path, HEADER))  # without it the transcript is made anew, too
    write_derived(session)


class _Month(NamedTuple):
    """The sessions of a month: all, the headers of those that can be read, those that a process holds.

    `rows` are those of the index, or why it cannot be used.
    """

    rows: dict[str, Header] | str
    names: frozenset[str]
    headers: dict[str, Header]
    held: set[str]


def _index(sessions: str, month: str, there: _Month, *, apply: bool) -> Outcome:
    """Compare the rows of a month with what the logs say; rows of running sessions may be old."""
    name, rows = f"{month}/{NAME}", there.rows
    if isinstance(rows, str):
        return Outcome(name, (Finding(f"it cannot be used: {rows}", "none", wrong=True),))
    wanted = {i: header for i, header in there.headers.items() if header.target is not None}
    off = sum(1 for session_id, header in wanted.items() if rows.get(session_id) != header)
    extra = sum(1 for session_id in rows if session_id not in there.names)
    if not off and not extra:
        return Outcome(name, ())
    parts = [f"{off:,} of {len(wanted):,} rows are missing or old"] if off else []
    parts += [f"{extra:,} rows are of sessions that are not there"] if extra else []
    finding = Finding(" and ".join(parts), "derive", "make it anew")
    if apply:
        try:
            now = [_present(sessions, session_id) for session_id in wanted]
            kept = [rows[session_id] for session_id in there.held if session_id in rows]
            replace_all(sessions, month, [*(header for header in now if header is not None), *kept])
        except (HaloError, OSError) as error:
            return Outcome(name, (finding,), str(error))
    return Outcome(name, (finding,))


def _rows(sessions: str, month: str) -> dict[str, Header] | str:
    try:
        return read_rows(sessions, month)
    except OSError as error:
        return error.strerror or str(error)


def _present(sessions: str, session_id: str) -> Header | None:
    """Return the header as it is after the session was repaired."""
    return read_header(SessionFolder(sessions, session_id))


def _remains(sessions: str, month: str, now: float, *, apply: bool) -> Outcome:
    """Remove the rest of sessions whose deletion was broken off: somebody had said yes to it."""
    folder = os.path.join(sessions, month)
    gone = [os.path.join(folder, name) for name in os.listdir(folder) if DELETED.match(name)]
    gone = [path for path in gone if now - os.lstat(path).st_ctime > RECENT or not os.listdir(path)]
    if not gone:
        return Outcome(month, ())
    text = f"{len(gone)} sessions are deleted, but not all of their files"
    finding = Finding(text, "leftovers", "remove the rest")
    if apply:
        try:
            for path in gone:
                shutil.rmtree(path)
        except OSError as error:
            return Outcome(month, (finding,), str(error))
    return Outcome(month, (finding,))


def _marks(sessions: str, *, apply: bool) -> Outcome:
    """Take marks away behind which nothing waits; one that is set meanwhile stays."""
    orphans = [name for name in marked(sessions) if not _waits(sessions, name)]
    if not orphans:
        return Outcome("waiting", ())
    marks = "1 mark stands" if len(orphans) == 1 else f"{len(orphans)} marks stand"
    finding = Finding(f"{marks} for nothing that waits", "mark", "take them away")
    if apply:
        try:
            for name in orphans:
                unmark(sessions, name)
                if _waits(sessions, name):
                    mark(sessions, name)
        except OSError as error:
            return Outcome("waiting", (finding,), str(error))
    return Outcome("waiting", (finding,))


def _waits(sessions: str, session_id: str) -> bool:
    folder = SessionFolder(sessions, session_id)
    if not is_session_id(session_id) or not folder.exists():
        return False
    return bool(Inbox(folder.path).count()) or wanted_stop(folder.path) is not None
