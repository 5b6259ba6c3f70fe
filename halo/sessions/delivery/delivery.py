"""Delivers what a turn says to a channel, while it is said: in order, each part once, nothing lost silently.

The turn never waits for the channel. A part that fails for good holds up the parts behind it: they are
recorded as unsent and kept, so that somebody may send them later, in order. Parts are cut as they are said,
and told before they are sent, so that whoever comes after a process that died can send what is left.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from halo.errors import HaloError
from halo.files.visible import shown
from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.records.session_events import Delivered
from halo.sessions.delivery.channels import Channel
from halo.sessions.delivery.coalescer import Coalescer
from halo.sessions.delivery.pacing import Chance, pause
from halo.sessions.delivery.payloads import Payload, outgoing
from halo.sessions.delivery.plan import Plan
from halo.sessions.delivery.sending import Sleep, send
from halo.sessions.delivery.speech import FLUSH, Flush, Speech

DRAFT_EVERY = 0.2  # seconds between two drafts at least


def _keep_nothing(_: object) -> None:
    """Keep no record but `results`."""


class Delivery:
    """The delivery of one reply; used with `async with`, whose end waits until all is sent.

    `reply` is the id of the reply (`payloads.reply_id`); no two deliveries share one. `due` is told of each
    part before it is sent, `record` when it is known what became of it. `internal`: nothing is ever sent,
    whatever the turn says.
    """

    def __init__(
        self,
        channel: Channel,
        address: Address,
        reply: str,
        plan: Plan,
        *,
        internal: bool = False,
        reply_to: str = "",
        due: Callable[[Outgoing], None] = _keep_nothing,
        record: Callable[[Delivered], None] = _keep_nothing,
        chance: Chance = random.randint,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._channel, self._address, self._reply, self._plan = channel, address, reply, plan
        self._due, self._record = due, record
        self._chance, self._clock, self._sleep = chance, clock, sleep
        self._speech = Speech(plan, reply_to=reply_to, internal=internal)
        self._coalescer = Coalescer(plan.coalesce)
        self._waiting: deque[Outgoing] = deque()
        self._over = False
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._blocks = 0
        self._parts = 0
        self._stuck = False  # a part was not sent: those behind it are not either
        self._drafting = plan.drafts != "off"
        self._drafts = 0
        self._draft_seen = 0
        self._draft_next = 0.0
        self.results: list[Delivered] = []
        self.unsent: list[Outgoing] = []

    @property
    def silent(self) -> bool:
        """Whether the model's last message said that there is no answer."""
        return self._speech.silent

    def take(self, event: object) -> None:
        """Take an event of the turn. Returns at once; to be called in the event loop."""
        self._put(self._speech.take(event))

    def put(self, payload: Payload) -> None:
        """Send something that is not the model's, behind what it has said so far. Returns at once."""
        self._put((payload,))

    def _put(self, items: tuple[Payload | Flush, ...]) -> None:
        for item in items:
            self._queue(
                self._coalescer.flush() if item == FLUSH else self._coalescer.put(item, self._clock())
            )
        if items or self._drafting:
            self._arrived.set()

    def _queue(self, payloads: tuple[Payload, ...]) -> None:
        for payload in payloads:
            self._parts += 1
            message = outgoing(payload, self._address, self._reply, self._parts)
            self._due(message)
            self.unsent.append(message)
            self._waiting.append(message)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is left, also of a turn that broke off: it was said. Cancelling leaves it unsent."""
        task = self._task
        assert task is not None  # noqa: S101  # it was entered
        self._put(self._speech.end())
        self._queue(self._coalescer.flush())
        self._over = True
        self._arrived.set()
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._give_up()
            raise

    async def _run(self) -> None:
        while True:
            while self._waiting:
                await self._send(self._waiting.popleft())
            if self._over:
                return
            now = self._clock()
            if self._draft_due is not None and now >= self._draft_due:
                await self._show_draft()
            else:
                self._queue(self._coalescer.tick(now))
                if not self._waiting:
                    await self._more()

    async def _more(self) -> None:
        """Wait for more to do, or until it is time for what waits."""
        times = [time for time in (self._coalescer.due, self._draft_due) if time is not None]
        left = max(0.0, min(times) - self._clock()) if times else None
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._arrived.wait()
        self._arrived.clear()

    @property
    def _draft_due(self) -> float | None:
        """When the next draft may be shown; None while there is none."""
        wanted = self._drafting and self._speech.drafted > self._draft_seen
        return self._draft_next if wanted else None

    async def _show_draft(self) -> None:
        """Show what the answer is so far. A draft that fails ends the drafts, nothing else."""
        self._draft_seen, self._draft_next = self._speech.drafted, self._clock() + DRAFT_EVERY
        self._drafts += 1
        name = f"{self._reply}.draft{self._drafts:05}"
        text = self._speech.draft
        message = Outgoing(FORMAT, name, self._reply, self._drafts, "draft", self._address, text)
        try:
            async with asyncio.timeout(self._plan.seconds):
                await self._channel.draft(message)
        except Exception as error:  # noqa: BLE001  # a channel is foreign code: the reply goes on
            self._drafting = False
            why = (
                error.on_one_line
                if isinstance(error, HaloError)
                else shown(f"{type(error).__name__}: {error}")
            )
            self._keep(Delivered(self._address.channel, name, self._drafts, "no_draft", error=why))

    async def _send(self, message: Outgoing) -> None:
        if self._stuck:
            self._keep(outcome(message, "unsent", "an earlier part was not sent"))
            return
        wait = pause(self._plan.pace, message.kind, self._blocks, self._chance)
        if wait > 0:
            await self._sleep(wait)
        result = await send(self._channel, message, self._plan.seconds, self._sleep)
        self._blocks += message.kind == "block"
        if result.state == "sent":
            self.unsent.remove(message)
        self._stuck = result.state != "sent"
        self._keep(result)

    def _give_up(self) -> None:
        """Record what is not sent because the delivery was cancelled."""
        known = {result.id for result in self.results}
        for message in self.unsent:
            if message.id not in known:
                self._keep(outcome(message, "broken_off", "it may have arrived"))

    def _keep(self, result: Delivered) -> None:
        self.results.append(result)
        self._record(result)


def outcome(message: Outgoing, state: str, why: str) -> Delivered:
    """Make the record of a part that was not tried."""
    return Delivered(message.address.channel, message.id, message.part, state, 0, why)


async def deliver(events: AsyncIterator[object], delivery: Delivery) -> tuple[Delivered, ...]:
    """Deliver a turn's events; return what became of each part."""
    async with delivery:
        async for event in events:
            delivery.take(event)
    return tuple(delivery.results)
