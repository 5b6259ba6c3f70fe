"""Begins sessions: the folder, the sealed first event."""

import os
import secrets
from collections.abc import Callable
from typing import NamedTuple

from halo.files.locks import FileLock, hold
from halo.files.regular import refuse_links
from halo.files.seal import machine_key
from halo.records.origins import Origin
from halo.records.session_events import SessionCreated, SessionTarget
from halo.records.targets import AgentTarget
from halo.sessions.find import session_seal
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.ids import new_session_id

_LOCK = "beginning.lock"
_PATIENCE = 30.0  # seconds: what is done meanwhile takes moments


class Relation(NamedTuple):
    """How a new session is related to others; the fields are those of `session.created`."""

    key: str = ""
    parent: str = ""
    root: str = ""
    depth: int = 0
    previous: str = ""
    reason: str = ""
    turns: int = 0
    copied: int = 0
    source: Origin | None = None


def one_at_a_time(sessions: str) -> FileLock:
    """Hold this while you look for the session of a key, and begin it where there is none.

    Else two processes that look at the same time both begin one. `sessions` is the `.halo/sessions` folder.
    """
    refuse_links(sessions)
    return hold(os.path.join(sessions, _LOCK), what="the beginning of another session", timeout=_PATIENCE)


def begin(
    sessions: str,
    home: str,
    now_ns: Callable[[], int],
    target: AgentTarget,
    origin: str,
    relation: Relation | None = None,
    *,
    session_id: str = "",
) -> OpenSession:
    """Create a session and hold it. `home` is Halo's home, with the key that its beginning is sealed with.

    `session_id` is one that the caller has made up and written down before. Raises OSError and `LogError`.
    """
    folder = SessionFolder(sessions, session_id or new_session_id(now_ns(), secrets.token_bytes(6)))
    session = folder.open(now_ns, create=True)
    try:
        key = machine_key(home, make=True)
        sealed = session_seal(key, folder.id) if key is not None else ""
        created = SessionCreated(
            folder.id, SessionTarget.of(target), origin, sealed, **(relation or Relation())._asdict()
        )
        session.append(created, turn=0)
    except BaseException:
        session.close()
        raise
    return session
