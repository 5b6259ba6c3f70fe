"""Which session a turn belongs to: a named one, the newest of its kind, or a new one."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from halo.errors import LogError, UsageError
from halo.records.session_events import SessionTarget
from halo.records.targets import Access, AgentTarget
from halo.sessions.beginning import Relation, begin
from halo.sessions.find import newest
from halo.sessions.folder import OpenSession, SessionFolder, check_writable
from halo.sessions.keeping.naming import named_session
from halo.sessions.routing.key import SessionKey
from halo.workspace.ids import is_id

CLI = "cli"  # the origin of what is said on this machine: `halo run`, `halo chat`


class Choice(NamedTuple):
    """A session to talk in: `folder` of an existing one, or None to begin one.

    `target` is whom it is with: of an existing session what it was begun with, so that a session of a
    sub-agent or in a directory goes on as what it is. `notices` are for the user. `relation` is that of a new
    session to others.
    """

    sessions: str
    home: str
    folder: SessionFolder | None
    target: AgentTarget
    origin: str
    notices: tuple[str, ...] = ()
    relation: Relation | None = None

    def open(self, now_ns: Callable[[], int]) -> OpenSession:
        """Take the session for a turn; a new one is created now."""
        if self.folder is not None:
            return self.folder.open(now_ns)
        return begin(self.sessions, self.home, now_ns, self.target, self.origin, self.relation)


def choose(
    sessions: str,
    agent: str | None,
    origin: str,
    *,
    home: str,
    named: str | None,
    new: bool,
    profile: str = "",
    access: Access | None = None,
) -> Choice:
    """Choose: `named`, an id or a key, must exist; without it and without `new` the newest of `origin`.

    That is the newest that `origin` began with the agent. `agent` None: whoever the named session is with,
    else `default`. A named session with another agent is the user's mistake: it is never carried on by
    somebody else. `profile` is for this turn: a session does not remember it. `access` is that of the session
    unless it is given. Raises `LogError` for a named session that cannot be read; others that cannot are
    passed over with a notice.
    """
    choice = _choose(sessions, agent, origin, home=home, named=named, new=new)
    access = access or choice.target.access
    return choice._replace(target=msgspec.structs.replace(choice.target, profile=profile, access=access))


def _choose(
    sessions: str, agent: str | None, origin: str, *, home: str, named: str | None, new: bool
) -> Choice:
    if named is not None:
        return _named(sessions, home, agent, origin, named)
    who = agent or "default"
    if not new:
        found = newest(sessions, who, origin, home)
        if found.folder is not None and found.header is not None and found.header.target is not None:
            target = _known(found.folder, found.header.target)
            return Choice(sessions, home, found.folder, target, origin, found.notices)
        notices = found.notices
    else:
        notices = ()
    return Choice(sessions, home, None, AgentTarget(who), origin, notices, main_session(who, origin))


def main_session(agent: str, origin: str) -> Relation | None:
    """Return the relation of a session that its user begins here: it is the agent's main one."""
    return Relation(key=SessionKey(agent).text) if origin == CLI and is_id(agent) else None


def _named(sessions: str, home: str, agent: str | None, origin: str, named: str) -> Choice:
    folder = named_session(sessions, home, named)
    conversation = folder.read_ahead()
    check_writable(folder, conversation)
    if conversation.created is None:
        raise LogError(
            "its first event, which says whom the session is with, is damaged",
            file=folder.events,
            hint="begin a new session: -n",
        )
    if origin == CLI and conversation.standing.archived:
        raise UsageError(
            f"session {named} is archived", hint=f"halo session unarchive {named} takes it out again"
        )
    target = _known(folder, conversation.created.target)
    if agent is not None and target.agent != agent:
        raise UsageError(
            f"session {named} is with agent {target.agent!r}, not {agent!r}",
            hint=f"leave -a away, or begin a new one: -n -a {agent}",
        )
    return Choice(sessions, home, folder, target, origin)


def _known(folder: SessionFolder, target: SessionTarget) -> AgentTarget:
    try:
        return target.target()
    except msgspec.ValidationError as error:
        raise LogError(
            f"was begun by a newer version of Halo: {error}",
            file=folder.events,
            hint="use the newer Halo to go on in this session, or begin another one: -n",
        ) from error
