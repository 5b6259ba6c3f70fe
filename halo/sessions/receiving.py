"""Takes a message from a channel: finds or begins the session that it reaches, and puts it into the inbox."""

import datetime as dt
import secrets
from collections.abc import Iterable
from urllib.parse import quote

from halo.errors import UnknownNameError
from halo.records.channels import channel_name
from halo.records.incoming import FORMAT, Incoming, Interrupt, Sender
from halo.records.targets import Access, AgentTarget
from halo.sessions.beginning import Relation, begin, one_at_a_time
from halo.sessions.choice import choose
from halo.sessions.commands.rollover import finished, roll_over
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.routing.addressing import address
from halo.sessions.routing.finding import sessions_of
from halo.sessions.routing.inbound import Inbound, origin_of
from halo.sessions.routing.known import Known
from halo.sessions.routing.route import Route, route
from halo.sessions.sending import Sent
from halo.workspace.agents import list_agents
from halo.workspace.settings.general import read_general

# What somebody who is not the owner may have a turn do.
GUEST: Access = "readonly"


def receive(
    desk: Desk, agent: str, inbound: Inbound, *, interrupt: Interrupt = "soft", message_id: str = ""
) -> tuple[Sent, Route]:
    """Take a message for `agent`. It is on disk afterwards, in the session that the settings lead it to.

    `message_id` is the channel's own: delivered twice, the message is taken once. A sender who is not
    `authorised` begins no new session by a word, and the turn may only read. Raises `SessionKeyError` for an
    envelope that leads nowhere, `UnknownNameError`, `BusyError` for a full inbox or a session that cannot be
    ended now, and OSError.
    """
    agents = list_agents(desk.tree)
    if agent not in agents:
        raise UnknownNameError.of("agent", agent, agents)
    sessions = sessions_folder(desk.builder.places.halo)
    name = message_name(inbound, message_id)
    with one_at_a_time(sessions):
        found, there = routed(desk, sessions, agent, inbound)
        before = taken_before(sessions, there, name) if message_id else None
        if before is not None:
            return Sent(before, name, new=False, begun=False), found
        folder = _session(desk, sessions, found, agent)
    ns, sender = desk.now_ns(), sender_of(inbound)
    message = Incoming(FORMAT, name, timestamp(ns), found.text, sender, interrupt, origin=origin_of(inbound))
    new = Inbox(folder.path).put(message, ns)
    mark(sessions, folder.id)
    return Sent(folder, name, new, found.action != "continue"), found


def message_name(inbound: Inbound, message_id: str) -> str:
    """Return the id of a message: by that of the channel, so that it is taken once; else a new one."""
    if not message_id:
        return secrets.token_hex(16)
    # Channels number the messages of a chat, or all of them: the chat is part of the name.
    parts = (channel_name(inbound.channel), inbound.account, inbound.group or inbound.peer, message_id)
    return ":".join(("channel", *(quote(part, safe="") for part in parts)))


def sender_of(inbound: Inbound) -> Sender:
    """Say who wrote a message, and what it may bring about."""
    return Sender(
        "event" if inbound.event else "user",
        id=inbound.peer,
        name=inbound.name,
        access="full" if inbound.authorised else GUEST,
        owner=inbound.authorised,
    )


def routed(desk: Desk, sessions: str, agent: str, inbound: Inbound) -> tuple[Route, tuple[Known, ...]]:
    """Decide where a message goes; also return the sessions that its key has had."""
    settings = read_general(desk.tree).session
    key = address(settings, agent, inbound).key
    there = sessions_of(sessions, desk.builder.places.home, key).rows
    now = dt.datetime.fromtimestamp(desk.now_ns() / 1e9, dt.UTC)
    return route(settings, agent, inbound, there, now, zone=desk.zone_name()), there


def taken_before(sessions: str, there: Iterable[Known], name: str) -> SessionFolder | None:
    """Return the session that has this message, be it the last one of its key or the one before.

    A channel that was not told in time delivers it again, perhaps when the session has been ended since.
    """
    newest = sorted((row.id for row in there), reverse=True)[:2]
    for folder in (SessionFolder(sessions, session_id) for session_id in newest):
        waiting = Inbox(folder.path).waiting()[0]  # first: a message leaves it when it is in the log
        if any(each.message.id == name for each in waiting) or name in folder.read().standing.taken:
            return folder
    return None


def _session(desk: Desk, sessions: str, found: Route, agent: str) -> SessionFolder:
    home = desk.builder.places.home
    if found.action == "continue":
        return SessionFolder(sessions, found.session)
    if found.previous:
        choice = choose(sessions, None, "channel", home=home, named=found.previous, new=False)
        if found.action == "rollover":
            choice = roll_over(desk, choice, found.reset.reason, found.reset.inputs)
        else:
            choice = finished(desk, choice)  # a process may have died between the end of one and the next
        if choice.folder is not None and choice.folder.id != found.previous:
            return choice.folder
    relation = Relation(key=found.key.text, source=found.origin)
    with begin(sessions, home, desk.now_ns, AgentTarget(agent), "channel", relation) as session:
        return session.folder
