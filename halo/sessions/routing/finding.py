"""Reads from the logs what routing must know of the sessions of one key."""

import os
from typing import NamedTuple

from halo.errors import BusyError, LogError
from halo.files.locks import hold
from halo.files.seal import machine_key
from halo.records.events import TurnStarted
from halo.records.session_events import SessionCreated
from halo.sessions.find import candidates, session_seal
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.reading import Unread, payload_of
from halo.sessions.routing.key import SessionKey
from halo.sessions.routing.known import Known


class Found(NamedTuple):
    """The sessions of a key, and what was passed over."""

    rows: tuple[Known, ...]
    notices: tuple[str, ...]


def sessions_of(sessions: str, home: str, key: SessionKey) -> Found:
    """Find the sessions of `key` that were begun here; `home` is Halo's home.

    The index rules most of the others out; of the rest only the beginning of the log is read. One that came
    with the folder says whatever somebody else wrote, so no message is led into it.
    """
    rows: list[Known] = []
    notices: list[str] = []
    text, own = key.text, machine_key(home)
    for session_id in candidates(sessions, {"key": text}):
        folder = SessionFolder(sessions, session_id)
        try:
            created = _beginning(folder)
            if created is None or created.key != text:
                continue
            if own is None or created.seal != session_seal(own, session_id):
                notices.append(f"{session_id} has this key and was begun elsewhere; it is passed over")
                continue
            conversation = folder.read()
            active = conversation.open_turn and is_held(folder)
            rows.append(known_of(session_id, conversation, active=active))
        except LogError as error:
            notices.append(f"{session_id} cannot be read and is passed over: {error.message}")
    return Found(tuple(rows), tuple(notices))


def known_of(session_id: str, conversation: Conversation, *, active: bool) -> Known:
    """Return what a folded log says of a session; `active`: a turn runs in it."""
    created, standing = conversation.created, conversation.standing
    return Known(
        id=session_id,
        key=created.key if created is not None else "",
        started_at=conversation.created_at,
        interacted_at=standing.interacted_at,
        active=active,
        successor=standing.successor.to if standing.successor is not None else "",
        parent=created.parent if created is not None else "",
        root=created.root if created is not None else "",
        settings=dict(standing.settings),
        origin=standing.origin,
    )


def _beginning(folder: SessionFolder) -> SessionCreated | None:
    """Return how a session began: what stands in the first line, or where that is damaged in a later one."""
    if not folder.exists():
        return None
    for event in folder.read_events():
        if isinstance(event, Unread):
            continue
        data = payload_of(event).data
        if isinstance(data, SessionCreated):
            return data
        if isinstance(data, TurnStarted) and data.session is not None:
            return data.session
    return None


def is_held(folder: SessionFolder) -> bool:
    """Tell whether a process holds the session; one that died in a turn does not."""
    path = os.path.join(folder.path, "lock")
    if not os.path.exists(path):
        return False
    try:
        with hold(path, what=f"session {folder.id}"):
            return False
    except BusyError:
        return True
