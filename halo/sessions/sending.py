"""Puts a message into the inbox of a session, from any process; whoever runs the session takes it."""

import asyncio
import secrets
from typing import NamedTuple

from halo.errors import UnknownNameError, UsageError
from halo.records.incoming import FORMAT, Incoming, Interrupt, Sender
from halo.records.targets import AgentTarget
from halo.sessions.beginning import Relation, begin, one_at_a_time
from halo.sessions.delegation.answers import Awaited, Outcome
from halo.sessions.desk import Desk
from halo.sessions.find import find_session, sessions_folder
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import is_session_id, timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.routing.finding import sessions_of
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.known import current_of
from halo.workspace.agents import list_agents

_EVERY = 0.2  # seconds between two looks for the answer


class Sent(NamedTuple):
    """Where a message went. `new`: it was not sent before with the same id; `begun`: its session is new."""

    folder: SessionFolder
    id: str
    new: bool
    begun: bool


def send(desk: Desk, named: str, text: str, *, interrupt: Interrupt, message_id: str = "") -> Sent:
    """Send `text`, as the owner, to the session with the id or key `named`. It is on disk afterwards.

    A key that no session has begins one with its agent. Raises `UnknownNameError`, `SessionKeyError`,
    `UsageError` for a session that is archived, `BusyError` for a full inbox, and OSError.
    """
    sessions = sessions_folder(desk.builder.places.halo)
    with one_at_a_time(sessions):
        folder, begun = _addressed(desk, sessions, named)
    now = desk.now_ns()
    sender = Sender("user", owner=True)
    name = f"sent:{message_id}" if message_id else secrets.token_hex(16)
    standing = folder.read().standing
    if standing.archived:
        raise UsageError(
            f"session {folder.id} is archived", hint=f"halo session unarchive {folder.id} takes it out again"
        )
    new = name not in standing.taken
    if new:
        new = Inbox(folder.path).put(Incoming(FORMAT, name, timestamp(now), text, sender, interrupt), now)
        mark(sessions, folder.id)
    return Sent(folder, name, new, begun)


def _addressed(desk: Desk, sessions: str, named: str) -> tuple[SessionFolder, bool]:
    if is_session_id(named):
        return find_session(sessions, named), False
    key = parse_key(named, agent="default")
    found = current_of(sessions_of(sessions, desk.builder.places.home, key).rows)
    if found is not None:
        return SessionFolder(sessions, found.id), False
    agents = list_agents(desk.tree)
    if key.agent not in agents:
        raise UnknownNameError.of("agent", key.agent, agents)
    relation = Relation(key=key.text)
    target = AgentTarget(key.agent)
    with begin(sessions, desk.builder.places.home, desk.now_ns, target, "send", relation) as session:
        return session.folder, True


async def outcome(sent: Sent, seconds: float) -> Outcome:
    """Wait until the turn that takes the message is over, for so many seconds at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    awaited = Awaited(sent.folder, sent.id)
    while True:
        found = awaited.look()
        if found.ended or loop.time() >= until:
            return found
        await asyncio.sleep(min(_EVERY, max(0.0, until - loop.time())))
