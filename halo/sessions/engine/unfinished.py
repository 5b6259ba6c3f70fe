"""Finds what a process that died has left: turns without an end, reports and answers that nobody has sent."""

import os
from collections import defaultdict
from collections.abc import Iterator

from halo.errors import BusyError
from halo.files.locks import hold
from halo.records.headers import Header
from halo.sessions.find import begun_here
from halo.sessions.folder import EVENTS, LOCK, SessionFolder
from halo.sessions.index.lookup import headers


def unfinished_sessions(sessions: str, home: str, *, before: float | None = None) -> Iterator[str]:
    """Yield the sessions that somebody has to open, so that they come to their end.

    `home` is Halo's home: those that were begun elsewhere are nobody's here. Those of a run in which somebody
    is at work are left to them. `before`: only where nothing has happened since then (seconds since the
    epoch).
    """
    runs: dict[str, list[Header]] = defaultdict(list)
    for header in headers(sessions):
        unfinished = _is_open(header) or (header.parent and header.turns > header.reported) or header.due
        if unfinished and begun_here(header, home):
            runs[header.root].append(header)
    for run in runs.values():
        folders = [SessionFolder(sessions, header.id) for header in run]
        if not all(_is_since(folder, before) for folder in folders):
            continue
        at_work = (f for f, header in zip(folders, run, strict=True) if _is_open(header) or header.due)
        if not any(map(_is_held, at_work)):
            yield from (folder.id for folder in folders)


def _is_open(header: Header) -> bool:
    return bool(header.turns) and not header.ended


def _is_since(folder: SessionFolder, before: float | None) -> bool:
    try:
        return before is None or os.lstat(os.path.join(folder.path, EVENTS)).st_mtime < before
    except OSError:
        return False


def _is_held(folder: SessionFolder) -> bool:
    try:
        with hold(os.path.join(folder.path, LOCK), what=f"session {folder.id}"):
            return False
    except (BusyError, OSError):
        return True
