"""Finds sessions of a workspace."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from halo.errors import LogError, UnknownNameError
from halo.files.seal import machine_key, seal
from halo.sessions.derived import Header, read_header
from halo.sessions.folder import SessionFolder

_MONTH = re.compile(r"\d{4}-\d{2}\Z")
_ID = re.compile(r"\d{8}t\d{6}-[0-9a-z]{6}\Z")


def is_session_id(text: str) -> bool:
    """Tell whether `text` is spelt as the id of a session."""
    return bool(_ID.match(text))


def sessions_folder(halo: str) -> str:
    """Return the folder of all sessions; `halo` is the workspace's `.halo/`."""
    return os.path.join(halo, "sessions")


def session_ids(sessions: str) -> Iterator[str]:
    """Yield the ids of all sessions, newest first. Months are listed one at a time."""
    months = [name for name in _names(sessions) if _MONTH.match(name)]
    for month in sorted(months, reverse=True):
        yield from sorted((n for n in _names(os.path.join(sessions, month)) if _ID.match(n)), reverse=True)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def headers(sessions: str) -> Iterator[Header]:
    """Yield the headers of all sessions, newest first; those whose logs cannot be read are left out."""
    for session_id in session_ids(sessions):
        try:
            header = read_header(SessionFolder(sessions, session_id))
        except LogError:
            continue  # halo session repair tells of it
        if header is not None:
            yield header


def headers_below(sessions: str, root: str) -> Iterator[Header]:
    """Yield the headers of all sessions of the run of `root`, but for its own."""
    return (header for header in headers(sessions) if header.root == root and header.id != root)


def find_session(sessions: str, session_id: str) -> SessionFolder:
    """Return the session called `session_id`. Raises `UnknownNameError`, with near misses."""
    if _ID.match(session_id):
        folder = SessionFolder(sessions, session_id)
        if folder.exists():
            return folder
    raise UnknownNameError.of("session", session_id, list(session_ids(sessions)))


class Newest(NamedTuple):
    """The newest session that fits, None if none does, and what was passed over because it is damaged."""

    folder: SessionFolder | None
    header: Header | None
    notices: tuple[str, ...]


def session_seal(key: bytes, session_id: str) -> str:
    """Seal the beginning of a session."""
    return seal(key, f"session {session_id}".encode())


def newest(sessions: str, agent: str, origin: str, home: str) -> Newest:
    """Find the newest session that `origin` began with `agent`, here (`home` is Halo's home).

    A newer one that cannot be read may have nothing to do with it, so it is passed over, and told of; and
    so is one that was begun elsewhere and came with the folder: what stands in it, somebody else said.
    """
    key = machine_key(home)
    damaged: list[str] = []
    for session_id in session_ids(sessions):
        folder = SessionFolder(sessions, session_id)
        try:
            header = read_header(folder)
        except LogError as error:
            damaged.append(f"{session_id} ({error.message})")
            continue
        if header is None or header.seq == 0 == header.log_bytes:
            continue  # nothing was ever recorded: it died while it was created
        if header.target is None:
            damaged.append(f"{session_id} (its beginning is lost)")
        elif header.agent != agent or header.origin != origin:
            continue
        elif key is None or header.seal != session_seal(key, session_id):
            damaged.append(f"{session_id} (begun elsewhere; -s {session_id} goes on in it)")
        else:
            return Newest(folder, header, _passed_over(damaged))
    return Newest(None, None, _passed_over(damaged))


def _passed_over(damaged: list[str]) -> tuple[str, ...]:
    if not damaged:
        return ()
    more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    return (f"warning: sessions that cannot be read are passed over: {', '.join(damaged[:3])}{more}",)
