"""Lists the sessions of a workspace by the index, and looks at the folders where it does not hold."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from halo.errors import HaloError, LogError
from halo.records.headers import Header
from halo.sessions.derived import read_header
from halo.sessions.find import months, session_ids, session_ids_of
from halo.sessions.folder import EVENTS, SessionFolder
from halo.sessions.index.rows import header_in, note_all, read_rows
from halo.sessions.index.sieve import Sieve

_BY_FD = os.stat in os.supports_dir_fd


class Listed(NamedTuple):
    """A session: its header, or why it cannot be read."""

    id: str
    header: Header | None
    problem: str = ""


def listed(sessions: str) -> Iterator[Listed]:
    """Yield all sessions, newest first. Those in which nothing was ever recorded are left out."""
    for month in months(sessions):
        yield from _of_month(sessions, month)


def headers(sessions: str) -> Iterator[Header]:
    """Yield the headers of all sessions, newest first; those whose logs cannot be read are left out."""
    return (found.header for found in listed(sessions) if found.header is not None)


def headers_of_run(sessions: str, root: str) -> Iterator[Header]:
    """Yield the headers of the run of `root`, newest first: its own, and those of all sessions below it."""
    return headers_with(sessions, root=root)


def headers_below(sessions: str, root: str) -> Iterator[Header]:
    """Yield the headers of all sessions of the run of `root`, but for its own."""
    return (header for header in headers_of_run(sessions, root) if header.id != root)


def headers_with(sessions: str, **fields: str) -> Iterator[Header]:
    """Yield the headers that have these values, newest first; the fields are those of `candidates`."""
    sieve = Sieve(sessions, fields)
    for session_id in session_ids(sessions):
        if sieve.rules_out(session_id):
            continue
        with suppress(LogError):  # halo session list and halo session repair tell of it
            folder = SessionFolder(sessions, session_id)
            header = _of_row(sieve.row(session_id), folder) or read_header(folder)
            if header is not None and all(getattr(header, name) == fields[name] for name in fields):
                yield header


def _of_row(row: bytes | None, folder: SessionFolder) -> Header | None:
    """Return the header in a row, if it is of the log as it is now."""
    header = header_in(row) if row is not None else None
    try:
        fits = header is not None and os.lstat(folder.events).st_size == header.log_bytes
    except OSError:
        return None
    return header if fits else None


def _of_month(sessions: str, month: str) -> Iterator[Listed]:
    try:
        rows = read_rows(sessions, month)
    except OSError:
        rows = {}  # something else stands there: halo session repair tells of it
    read: list[Header] = []
    try:
        for session_id, size in sizes(sessions, month):
            row = rows.get(session_id)
            if row is not None and row.log_bytes == size:
                yield Listed(session_id, row)
                continue
            found = _read(sessions, session_id)
            if found.header is not None:
                read.append(found.header)
            if found.problem or found.header is not None:
                yield found
    finally:
        # Whoever lists next finds them there. A folder that may not be written to is listed all the same.
        with suppress(HaloError, OSError):
            note_all(sessions, month, read)


def _read(sessions: str, session_id: str) -> Listed:
    try:
        header = read_header(SessionFolder(sessions, session_id))
    except LogError as error:
        return Listed(session_id, None, error.message)
    if header is None or header.seq == 0 == header.log_bytes:
        return Listed(session_id, None)
    return Listed(session_id, header)


def sizes(sessions: str, month: str) -> Iterator[tuple[str, int]]:
    """Yield the sessions of a month that have logs, newest first, and how large these are."""
    folder = os.path.join(sessions, month)
    names = session_ids_of(sessions, month)
    if not _BY_FD:
        for name in names:
            with suppress(OSError):
                yield name, os.lstat(os.path.join(folder, name, EVENTS)).st_size
        return
    fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        for name in names:
            try:
                size = os.stat(f"{name}/{EVENTS}", dir_fd=fd, follow_symlinks=False).st_size
            except OSError:
                continue
            yield name, size
    finally:
        os.close(fd)
