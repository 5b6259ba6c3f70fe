"""Finds sessions of a workspace."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from halo.errors import LogError, UnknownNameError
from halo.files.seal import machine_key, seal
from halo.records.headers import Header
from halo.sessions.derived import read_header
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import is_session_id
from halo.sessions.index.sieve import Sieve

_MONTH = re.compile(r"\d{4}-\d{2}\Z")
_FREE = 32  # sessions that are read one by one before the index is: most often the newest one fits


def sessions_folder(halo: str) -> str:
    """Return the folder of all sessions; `halo` is the workspace's `.halo/`."""
    return os.path.join(halo, "sessions")


def session_ids(sessions: str) -> Iterator[str]:
    """Yield the ids of all sessions, newest first. Months are listed one at a time."""
    for month in months(sessions):
        yield from session_ids_of(sessions, month)


def months(sessions: str) -> list[str]:
    """Return the names of the folders of months, newest first."""
    return sorted((name for name in _names(sessions) if _MONTH.match(name)), reverse=True)


def session_ids_of(sessions: str, month: str) -> list[str]:
    """Return the ids of the sessions of a month, newest first."""
    return sorted((n for n in _names(os.path.join(sessions, month)) if is_session_id(n)), reverse=True)


def candidates(sessions: str, fields: Mapping[str, str], *, free: int = 0) -> Iterator[str]:
    """Yield the ids of the sessions that may have these values of `Header`, by name, newest first.

    The index rules the others out; the first `free` ones are yielded without it. What is looked for must
    never change in a session: its key, parent, root, agent or origin.
    """
    sieve = Sieve(sessions, fields)
    for number, session_id in enumerate(session_ids(sessions)):
        if number < free or not sieve.rules_out(session_id):
            yield session_id


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_session(sessions: str, session_id: str) -> SessionFolder:
    """Return the session called `session_id`. Raises `UnknownNameError`, with near misses."""
    if is_session_id(session_id):
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


def begun_here(header: Header | None, home: str) -> bool:
    """Tell whether a session was begun on this machine, and has not come with the folder."""
    return header is not None and is_sealed(header.id, header.seal, home)


def is_sealed(session_id: str, sealed: str, home: str) -> bool:
    """Tell whether `sealed` is what this machine gives a session that it begins."""
    key = machine_key(home)
    return key is not None and sealed == session_seal(key, session_id)


def newest(sessions: str, agent: str, origin: str, home: str) -> Newest:
    """Find the newest session that `origin` began with `agent`, here (`home` is Halo's home).

    Archived ones are no more talked in. A newer one that cannot be read may have nothing to do with it, so it
    is passed over, and told of; and so is one that was begun elsewhere and came with the folder: what stands
    in it, somebody else said.
    """
    damaged: list[str] = []
    for session_id in candidates(sessions, {"agent": agent, "origin": origin}, free=_FREE):
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
        elif header.agent != agent or header.origin != origin or header.settings.get("archived"):
            continue
        elif not begun_here(header, home):
            damaged.append(f"{session_id} (begun elsewhere; -s {session_id} goes on in it)")
        else:
            return Newest(folder, header, _passed_over(damaged))
    return Newest(None, None, _passed_over(damaged))


def _passed_over(damaged: list[str]) -> tuple[str, ...]:
    if not damaged:
        return ()
    more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    return (f"warning: sessions that cannot be read are passed over: {', '.join(damaged[:3])}{more}",)
