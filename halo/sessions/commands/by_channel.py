"""What somebody writes on a channel: a command is done and answered there, all else waits for the session."""

import secrets
import sys
from contextlib import nullcontext
from typing import NamedTuple

import msgspec

from halo.errors import BusyError, HaloError, UsageError
from halo.records.incoming import FORMAT, Incoming, Interrupt
from halo.records.outgoing import Address
from halo.records.targets import AgentTarget
from halo.sessions.beginning import Relation, one_at_a_time
from halo.sessions.choice import Choice, choose
from halo.sessions.commands.doing import perform
from halo.sessions.commands.reading import Command, read_command
from halo.sessions.commands.rollover import spoken
from halo.sessions.delivery.channels import Opening, channel_types
from halo.sessions.delivery.delivery import Delivery
from halo.sessions.delivery.opening import make_ready
from halo.sessions.delivery.payloads import Payload, reply_id
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.ids import timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.receiving import message_name, receive, routed, sender_of, taken_before
from halo.sessions.reply import Show
from halo.sessions.routing.addressing import address
from halo.sessions.routing.inbound import Inbound, origin_of
from halo.sessions.routing.route import Route
from halo.sessions.routing.sending import decide_sending
from halo.sessions.sending import Sent
from halo.workspace.connections import connection_of
from halo.workspace.settings.general import read_general


class TakenIn(NamedTuple):
    """What came of it: the message that waits, if one does; what its writer was told; what went wrong."""

    sent: Sent | None
    told: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


async def take_in(
    desk: Desk,
    agent: str,
    inbound: Inbound,
    show: Show,
    *,
    interrupt: Interrupt = "soft",
    message_id: str = "",
) -> TakenIn:
    """Take in what was written to `agent`. A command is done now; its answer goes out, and is no message.

    `message_id` and what is raised are as in `receive`. What a command refuses is an answer, too.
    """
    settings = read_general(desk.tree).session
    address(settings, agent, inbound)  # an envelope that leads nowhere is no command either
    command: Command | None = None
    try:
        command = _command(desk, inbound)
        if command is None:
            sent, route = receive(desk, agent, inbound, interrupt=interrupt, message_id=message_id)
            taken = TakenIn(sent, _rolled_over(route, sent), route.warnings)
        else:
            taken = await _done(desk, agent, inbound, command, show, interrupt, message_id)
    except (UsageError, BusyError) as error:
        if command is None and isinstance(error, BusyError):
            raise  # the message is not taken: the channel may bring it again
        taken = TakenIn(None, (error.message + (f"; {error.hint}" if error.hint else ""),))
    problems = await _tell(desk, agent, inbound, taken.told) if taken.told else _no_way_back(desk, inbound)
    return taken._replace(warnings=(*taken.warnings, *problems))


def _no_way_back(desk: Desk, inbound: Inbound) -> tuple[str, ...]:
    """Say that no reply can go out by this channel, where that is certain before there is one."""
    connect = connection_of(desk.tree, inbound.channel, inbound.account).connect
    known = channel_types()
    if connect.type in known:
        return ()
    what = (
        f"no installed channel is of the type {connect.type!r}, so replies on {inbound.channel} cannot go out"
    )
    return (f"{what}; known: {', '.join(known)}",)


def _command(desk: Desk, inbound: Inbound) -> Command | None:
    triggers = read_general(desk.tree).session.reset_triggers
    sender = sender_of(inbound)
    if not sender.owner:
        triggers = ()  # `route` passes these words on, and warns
    return read_command(inbound.text, sender, triggers)


def _rolled_over(route: Route, sent: Sent) -> tuple[str, ...]:
    """Say that a rule ended the session."""
    ended = route.action == "rollover" and sent.new
    return (spoken(route.reset, route.previous, sent.folder.id),) if ended else ()


async def _done(
    desk: Desk,
    agent: str,
    inbound: Inbound,
    command: Command,
    show: Show,
    interrupt: Interrupt,
    message_id: str,
) -> TakenIn:
    sessions, now = sessions_folder(desk.builder.places.halo), desk.now_ns()
    name, origin = message_name(inbound, message_id), origin_of(inbound)
    message = Incoming(
        FORMAT, name, timestamp(now), inbound.text, sender_of(inbound), interrupt, origin=origin
    )
    begins = command.name in ("new", "reset")
    with one_at_a_time(sessions) if begins else nullcontext():
        found, there = routed(desk, sessions, agent, inbound)
        if message_id and (before := taken_before(sessions, there, name)) is not None:
            return TakenIn(Sent(before, name, new=False, begun=False))
        done = await perform(desk, command, _choice(desk, sessions, found, agent), message, show)
    told = (*done.notices, *((done.answer.text,) if done.answer is not None else ()))
    if done.message is None or done.choice.folder is None:
        return TakenIn(None, told)
    folder = done.choice.folder
    new = Inbox(folder.path).put(msgspec.structs.replace(done.message, id=name, origin=origin), now)
    mark(sessions, folder.id)
    return TakenIn(Sent(folder, name, new, begun=True), told)


def _choice(desk: Desk, sessions: str, found: Route, agent: str) -> Choice:
    """Return the session that messages of this key reach now, whatever rules say of the next one."""
    home = desk.builder.places.home
    current = found.session or (found.previous if found.action == "rollover" else "")
    if current:
        return choose(sessions, None, "channel", home=home, named=current, new=False)
    relation = Relation(key=found.key.text, source=found.origin)
    return Choice(sessions, home, None, AgentTarget(agent), "channel", relation=relation)


async def _tell(desk: Desk, agent: str, inbound: Inbound, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Send what Halo itself says to where it was written; return what went wrong.

    The rules of the send policy hold; what `/send` sets is about what the agent says.
    """
    session, origin = read_general(desk.tree).session, origin_of(inbound)
    decision = decide_sending(
        session.send_policy, address(session, agent, inbound).key, channel=origin.provider, override=""
    )
    if not decision.allowed:
        return (f"not told on {origin.provider}: {decision.reason}",)
    opening = Opening(
        channel=origin.provider,
        account=origin.account,
        params={},
        halo=desk.builder.places.halo,
        write=sys.stdout.write,
        now=lambda: desk.now_ns() / 1e9,
    )
    try:
        ready = make_ready(desk.tree, desk.grants(), desk.environ, opening, agent)
    except HaloError as error:
        return (f"not told on {origin.provider}: {error}",)
    to = Address(origin.provider, origin.to or origin.sender, origin.account, origin.thread)
    name = reply_id(f"command-{secrets.token_hex(6)}", 0, timestamp(desk.now_ns()))
    try:
        async with Delivery(ready.channel, to, name, ready.plan) as delivery:
            for text in texts:
                delivery.put(Payload(text, "other", visibility="notice", alone=True))
    finally:
        await ready.channel.close()
    return tuple(
        f"not told on {origin.provider}: {result.state} {result.error}".rstrip()
        for result in delivery.results
        if result.state != "sent"
    )
