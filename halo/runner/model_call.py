"""A model call of a turn: from a history that fits the model to a whole reply."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from halo.errors import ProviderError
from halo.models.adapter import Adapter, Finished, Lost, Notice, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.prefix import Prefix
from halo.records.artifacts import Runtime
from halo.records.events import ContextShortened, MessageAdded, UsageLost, UsageReported
from halo.records.messages import Message, Text
from halo.records.session_events import CompactionFailed, MemoryFlushed
from halo.runner.budgets import Ledger, Price
from halo.runner.context.context import Context
from halo.runner.context.flushing import Flush
from halo.runner.deadline import Over, check_bounds, within_time
from halo.runner.record import History
from halo.runner.reporting import charge, report_lost

# How often a history that is too long for the provider is shortened for the same call.
_SHORTENINGS = 3

CallEvent = (
    MessageAdded
    | UsageReported
    | UsageLost
    | ContextShortened
    | CompactionFailed
    | MemoryFlushed
    | TextDelta
    | ThinkingDelta
    | Retrying
    | Notice
)


class Reply(NamedTuple):
    """What a call came to: the adapter's last event, and at which attempt it came."""

    finished: Finished
    attempts: int


class ModelCalls:
    """The calls of one turn, one after the other. Each sends `history` as it is by then.

    `cold`: the provider's cache holds nothing of that history before the first call. `flush` keeps notes of
    what a shortening will lose.
    """

    def __init__(
        self,
        prefix: Prefix,
        runtime: Runtime,
        history: History,
        adapter: Adapter,
        ledger: Ledger,
        price: Price,
        *,
        cold: bool = False,
        flush: Flush | None = None,
    ) -> None:
        self._prefix, self._binding, self._history = prefix, runtime.binding, history
        self._adapter, self._ledger, self._price = adapter, ledger, price
        self._context, self._cold = Context(runtime, prefix, adapter, flush=flush), cold
        self._said: list[str] = []  # the words of this call

    async def next_reply(self) -> AsyncGenerator[CallEvent | Reply, None]:
        """Make a call, from a history that has been shortened if need be; its `Reply` comes last.

        One that is too long for the provider is shortened and sent again. The reply itself is not put into
        the history, and not charged. Raises `Over` when a bound is reached; what was said up to then is kept
        as a partial message.
        """
        check_bounds(self._ledger)
        reason = self._context.reason(self._history, cold=self._cold)
        self._cold = False
        async with aclosing(self._shorten(reason)) as events:
            async for event in events:
                yield event
        for shortenings in range(_SHORTENINGS + 1):
            try:
                async with aclosing(self._stream()) as replies:
                    async for reply in replies:
                        yield reply
                return
            except ProviderError as error:
                if error.kind != "overflow" or shortenings == _SHORTENINGS:
                    raise
                shortened = False
                async with aclosing(self._shorten("overflow", harder=shortenings > 0)) as events:
                    async for event in events:
                        shortened = shortened or isinstance(event, ContextShortened)
                        yield event
                if not shortened:
                    raise
                if self._said:  # some find out in the middle of the reply
                    yield Retrying("the conversation was too long", 0.0, shortenings + 1)

    async def _shorten(self, reason: str, *, harder: bool = False) -> AsyncGenerator[CallEvent, None]:
        """Shorten the history where `reason` asks for it; what that costs is part of the turn."""
        if not reason:
            return
        shortening = self._context.shorten(self._history, reason, harder=harder)
        async with aclosing(within_time(shortening, self._ledger)) as events:
            async for event in events:
                if isinstance(event, (UsageReported, UsageLost)):
                    yield charge(self._ledger, self._price, event)
                else:
                    yield event
        check_bounds(self._ledger)  # a summary is a call, too

    async def _stream(self) -> AsyncGenerator[CallEvent | Reply, None]:
        """Send the history as it is."""
        request = Request(self._prefix, self._history.messages, self._binding)
        finished: Finished | None = None
        attempts, self._said = 1, []
        try:
            async with aclosing(within_time(self._adapter.stream(request), self._ledger)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        finished = event
                        continue
                    if isinstance(event, Lost):
                        yield charge(self._ledger, self._price, report_lost(self._adapter.provider, event))
                        check_bounds(self._ledger)  # it is not made again for more than there is
                        continue
                    if isinstance(event, Retrying):
                        attempts += 1
                        self._said.clear()
                    elif isinstance(event, TextDelta):
                        self._said.append(event.text)
                    yield event
        except Over:
            if self._said:  # it was shown, so it stays
                message = Message("assistant", (Text("".join(self._said)),))
                self._history.extend((message,))
                yield MessageAdded(message, partial=True)
            raise
        assert finished is not None  # noqa: S101  # the adapter's promise
        yield Reply(finished, attempts)
