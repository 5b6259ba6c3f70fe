"""Delivers the replies of a session to the channel that its messages come from."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from halo.errors import HaloError, SessionKeyError
from halo.models.adapter import Notice
from halo.records.incoming import Incoming
from halo.records.origins import Origin
from halo.records.outgoing import Address
from halo.records.session_events import Delivered, DeliveryDue
from halo.runner.turn import TurnEvent
from halo.sessions.delivery.channels import Opening
from halo.sessions.delivery.delivery import Delivery
from halo.sessions.delivery.opening import make_ready, make_unready
from halo.sessions.delivery.payloads import reply_id
from halo.sessions.desk import Desk
from halo.sessions.folder import OpenSession
from halo.sessions.ids import timestamp
from halo.sessions.reply import Began, Show
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.inbound import merged
from halo.sessions.routing.sending import decide_sending
from halo.workspace.settings.general import read_general


@asynccontextmanager
async def delivering(
    desk: Desk, session: OpenSession, messages: Sequence[Incoming], show: Show
) -> AsyncIterator[Show]:
    """Deliver the turn of `messages` that runs within, and yield what its events are to be shown to.

    The turn never waits for the channel, and no fault of a channel ends it: what became of each part is
    recorded in the session, and told. A session that no channel leads to delivers nothing.
    """
    origin = _origin(session, messages)
    created = session.conversation.created
    agent = created.target.agent if created is not None else ""
    if origin is None or not origin.provider:
        yield show
        return

    record = recording(session, show)
    refused = refused_by(desk, session, origin.provider)
    if refused:
        yield show
        record(Delivered(origin.provider, "", 0, "denied", 0, refused))
        return
    opening = opening_of(desk, origin.provider, origin.account)
    try:
        ready = make_ready(desk.tree, desk.grants(), desk.environ, opening, agent)
    except HaloError as error:
        ready = make_unready(desk.tree, error, opening, agent)
    at = timestamp(desk.now_ns())
    turn = session.conversation.turn + 1
    address = Address(origin.provider, origin.to or origin.sender, origin.account, origin.thread)
    try:
        async with Delivery(
            ready.channel,
            address,
            reply_id(session.folder.id, turn, at),
            ready.plan,
            due=lambda message: _append(session, DeliveryDue(message)),
            record=record,
        ) as delivery:
            yield _both(show, delivery)
    finally:
        await ready.channel.close()


def _origin(session: OpenSession, messages: Sequence[Incoming]) -> Origin | None:
    """Return where the reply to these messages goes: where the last person among them wrote.

    Whoever writes at a terminal reads the answer there, and another session gets it as a message: neither is
    for the people on the channel. What a timer or a report brings about is.
    """
    origin = known = session.conversation.standing.origin
    if all(message.sender.kind == "agent" for message in messages):
        return None
    for message in messages:
        if message.sender.kind == "user" and message.origin is None:
            origin = None
        elif message.sender.kind in ("user", "internal") and message.origin is not None:
            origin = known = merged(known, message.origin) if known is not None else message.origin
    return origin


def _both(show: Show, delivery: Delivery) -> Callable[[TurnEvent | Began], None]:
    def shown(event: TurnEvent | Began) -> None:
        show(event)
        delivery.take(event)

    return shown


def recording(session: OpenSession, show: Show) -> Callable[[Delivered], None]:
    """Return what records in a session what became of a part, and tells of one that was not sent."""

    def record(result: Delivered) -> None:
        _append(session, result)
        if result.state not in ("sent", "no_draft"):
            what = f"not delivered to {result.channel}: {result.state} {result.error}"
            show(Notice(f"warning: {what}".rstrip()))

    return record


def _append(session: OpenSession, data: Delivered | DeliveryDue) -> None:
    if session.sound:
        session.append(data)


def refused_by(desk: Desk, session: OpenSession, channel: str) -> str:
    """Say why the replies of a session may not go out by a channel; empty where they may."""
    conversation = session.conversation
    created = conversation.created
    try:
        parsed = parse_key(
            (created.key if created is not None else "") or "main",
            agent=created.target.agent if created is not None else "",
        )
    except SessionKeyError as error:
        return error.message  # a gate that cannot decide stays closed
    policy = read_general(desk.tree).session.send_policy
    override = conversation.standing.settings.get("send", "")
    decision = decide_sending(policy, parsed, channel=channel, override=override)
    return "" if decision.allowed else decision.reason


def opening_of(desk: Desk, channel: str, account: str) -> Opening:
    """Return what a channel is opened with."""
    return Opening(
        channel=channel,
        account=account,
        params={},
        halo=desk.builder.places.halo,
        write=sys.stdout.write,
        now=lambda: desk.now_ns() / 1e9,
    )
