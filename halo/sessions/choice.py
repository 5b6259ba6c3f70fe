"""Which session a turn belongs to: a named one, the newest of its kind, or a new one."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from halo.errors import UsageError
from halo.records.events import SessionCreated
from halo.sessions.find import find_session, newest
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.ids import new_session_id


class Choice(NamedTuple):
    """A session to talk in: `folder` of an existing one, or None to begin one with `agent`."""

    sessions: str
    folder: SessionFolder | None
    agent: str
    origin: str

    def open(self, now_ns: Callable[[], int]) -> OpenSession:
        """Take the session for a turn; a new one is created now."""
        if self.folder is not None:
            return self.folder.open(now_ns)
        folder = SessionFolder(self.sessions, new_session_id(now_ns(), secrets.token_bytes(6)))
        session = folder.open(now_ns, create=True)
        try:
            session.append(SessionCreated(folder.id, self.agent, self.origin), turn=0)
        except BaseException:
            session.close()
            raise
        return session


def choose(sessions: str, agent: str | None, origin: str, *, named: str | None, new: bool) -> Choice:
    """Choose: `named` must exist; without it and without `new` the newest that `origin` began with the agent.

    `agent` None: whoever the named session is with, else `default`. A named session with another agent
    is the user's mistake: it is never carried on by somebody else.
    """
    if named is not None:
        folder = find_session(sessions, named)
        created = folder.read().created
        partner = created.agent if created is not None else ""
        if agent is not None and partner != agent:
            raise UsageError(
                f"session {named} is with agent {partner!r}, not {agent!r}",
                hint=f"leave -a away, or begin a new one: -n -a {agent}",
            )
        return Choice(sessions, folder, partner, origin)
    who = agent or "default"
    return Choice(sessions, None if new else newest(sessions, who, origin), who, origin)
