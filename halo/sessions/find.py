"""Finds sessions of a workspace."""

import os
import re
from collections.abc import Iterator

from halo.errors import UnknownNameError
from halo.sessions.derived import Header, read_header
from halo.sessions.folder import SessionFolder

_ID = re.compile(r"\d{8}t\d{6}-[0-9a-z]{6}\Z")


def sessions_folder(halo: str) -> str:
    """Return the folder of all sessions; `halo` is the workspace's `.halo/`."""
    return os.path.join(halo, "sessions")


def session_ids(sessions: str) -> Iterator[str]:
    """Yield the ids of all sessions, newest first. Months are listed one at a time."""
    for month in sorted(_names(sessions), reverse=True):
        yield from sorted((n for n in _names(os.path.join(sessions, month)) if _ID.match(n)), reverse=True)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_session(sessions: str, session_id: str) -> SessionFolder:
    """Return the session called `session_id`. Raises `UnknownNameError`, with near misses."""
    if _ID.match(session_id):
        folder = SessionFolder(sessions, session_id)
        if folder.exists():
            return folder
    raise UnknownNameError.of("session", session_id, list(session_ids(sessions)))


def newest(sessions: str, agent: str, origin: str) -> SessionFolder | None:
    """Return the newest session that `origin` began with `agent`."""
    for session_id in session_ids(sessions):
        folder = SessionFolder(sessions, session_id)
        header: Header | None = read_header(folder)
        if header is not None and header.agent == agent and header.origin == origin:
            return folder
    return None
