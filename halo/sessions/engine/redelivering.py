"""Sends parts of replies once more: those of a process that died, and those that a channel did not take."""

from collections.abc import Iterable

from halo.errors import HaloError
from halo.models.adapter import Notice
from halo.records.outgoing import Address, Outgoing
from halo.sessions.delivery.delivery import outcome
from halo.sessions.delivery.opening import Ready, make_ready
from halo.sessions.delivery.sending import send
from halo.sessions.desk import Desk
from halo.sessions.engine.delivering import opening_of, recording, refused_by
from halo.sessions.folder import OpenSession
from halo.sessions.reply import Show


async def send_due(desk: Desk, session: OpenSession, show: Show) -> None:
    """Send the parts of which nobody knows whether they arrived: they have the ids that they had."""
    due = session.conversation.standing.due
    if due:
        parts = "a part of an earlier reply" if len(due) == 1 else f"{len(due)} parts of earlier replies"
        show(Notice(f"sending {parts} first: a process ended before it was known to have arrived"))
        await _Sending(desk, session, show).run(due.values())


async def send_again(desk: Desk, session: OpenSession, show: Show) -> int:
    """Send all that did not arrive, in order, and return how many parts did now."""
    standing = session.conversation.standing
    return await _Sending(desk, session, show).run((*standing.undelivered.values(), *standing.due.values()))


class _Sending:
    """Sends parts by the channels that they were meant for, each opened once."""

    def __init__(self, desk: Desk, session: OpenSession, show: Show) -> None:
        self._desk, self._session = desk, session
        self._record = recording(session, show)
        self._open: dict[tuple[str, str], Ready] = {}

    async def run(self, messages: Iterable[Outgoing]) -> int:
        """Send them in the order in which they were said; return how many were sent."""
        sent, stuck = 0, set[str]()
        try:
            for message in sorted(messages, key=lambda message: message.id):
                if message.reply in stuck:
                    self._record(outcome(message, "unsent", "an earlier part was not sent"))
                elif await self._send(message):
                    sent += 1
                else:
                    stuck.add(message.reply)
        finally:
            for ready in self._open.values():
                await ready.channel.close()
        return sent

    async def _send(self, message: Outgoing) -> bool:
        try:
            refused = refused_by(self._desk, self._session, message.address.channel)
            ready = None if refused else self._ready(message.address)
        except HaloError as error:
            refused, ready = error.on_one_line, None
        if ready is None:
            self._record(outcome(message, "unsent", refused))
            return False
        result = await send(ready.channel, message, ready.plan.seconds)
        self._record(result)
        return result.state == "sent"

    def _ready(self, address: Address) -> Ready:
        """Return the channel of an address. Raises `HaloError`."""
        where = (address.channel, address.account)
        if where not in self._open:
            desk, created = self._desk, self._session.conversation.created
            agent = created.target.agent if created is not None else ""
            opening = opening_of(desk, *where)
            self._open[where] = make_ready(desk.tree, desk.grants(), desk.environ, opening, agent)
        return self._open[where]
