"""The session that a user names on the command line: by its id, or by its key."""

from halo.errors import UnknownNameError
from halo.sessions.find import find_session
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import is_session_id
from halo.sessions.routing.finding import sessions_of
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.known import current_of, history_of


def named_session(sessions: str, home: str, named: str) -> SessionFolder:
    """Return the session with the id `named`, or the one that messages of the key `named` reach.

    Of a key whose sessions are all over it is the newest one. `home` is Halo's home. Raises
    `UnknownNameError`, `SessionKeyError`.
    """
    if is_session_id(named) or ":" not in named:
        return find_session(sessions, named)
    key = parse_key(named, agent="default")
    history = history_of(sessions_of(sessions, home, key).rows, key)
    found = current_of(history) or (history[0] if history else None)
    if found is None:
        raise UnknownNameError(
            f"no session has the key {key.text!a}", hint="halo session list --format json shows keys"
        )
    return SessionFolder(sessions, found.id)
