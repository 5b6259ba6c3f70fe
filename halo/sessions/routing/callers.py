"""Which sessions a session may name: a key that a model chose is checked against what it may see."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from halo.errors import SessionKeyError, UnknownNameError
from halo.sessions.ids import is_session_id
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.key import SessionKey
from halo.sessions.routing.known import Known, current_of, history_of

# Its whole tree, what was started below it, or all sessions of the workspace.
Visibility = Literal["tree", "spawned", "workspace"]

# What a program may name a session of its own. The rest belongs to those who write by a channel.
_FREE = frozenset({"cron", "hook", "node", "other"})


class Caller(NamedTuple):
    """The session that names another."""

    session: str
    agent: str
    visibility: Visibility = "tree"


def find_visible(text: str, caller: Caller, rows: Iterable[Known]) -> Known:
    """Return the session that `text`, an id or a key, names for `caller`.

    One that it may not see is answered like one that does not exist, with what was asked for and no more.
    Raises `SessionKeyError` for what is no key, `UnknownNameError`.
    """
    known = list(rows)
    if is_session_id(text):
        found = next((row for row in known if row.id == text), None)
    else:
        history = history_of(known, parse_key(text, agent=caller.agent))
        found = current_of(history) or (history[0] if history else None)
    if found is None or not _sees(caller, found, {row.id: row for row in known}):
        raise UnknownNameError(
            f"no session {text!a} that may be seen from here", hint="session_list shows those that may"
        )
    return found


def _sees(caller: Caller, row: Known, by_id: dict[str, Known]) -> bool:
    if caller.visibility == "workspace" or row.id == caller.session:
        return True
    if caller.visibility == "tree":
        own = by_id.get(caller.session)
        return (row.root or row.id) == ((own.root if own is not None else "") or caller.session)
    return caller.session in _ancestors(row, by_id)


def _ancestors(row: Known, by_id: dict[str, Known]) -> set[str]:
    found: set[str] = set()
    above = row.parent
    while above and above not in found:
        found.add(above)
        above = by_id[above].parent if above in by_id else ""
    return found


def own_key(text: str, agent: str) -> SessionKey:
    """Read a key that a program of `agent` (a hook, a job) chose for a session of its own.

    Raises `SessionKeyError` for a key of another agent, and for one that a sender's messages could reach.
    """
    key = parse_key(text, agent=agent)
    if key.agent != agent:
        raise SessionKeyError(f"session key: {key.text!a} is not one of agent {agent!r}")
    if key.base not in _FREE:
        raise SessionKeyError(
            f"session key: {key.text!a} belongs to those who write by a channel",
            hint="choose hook:<id>, or a name of your own",
        )
    return key
