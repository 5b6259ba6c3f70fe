"""When a history is shortened, by which strategies, and how far."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from halo.compiler.tokens import estimate
from halo.errors import HaloError, ProviderError
from halo.files.canonical import canonical_json
from halo.models.adapter import Adapter, Finished, Lost, Notice, Request, Retrying
from halo.models.prefix import Prefix
from halo.records.artifacts import Runtime
from halo.records.events import ContextShortened, Edit, UsageLost, UsageReported
from halo.records.messages import Message
from halo.runner.context.cap import cap
from halo.runner.context.prune import prune
from halo.runner.context.summarise import Plan, asked, asked_shorter, plan, usable, with_summary
from halo.runner.context.truncate import truncate
from halo.runner.context.units import View
from halo.runner.record import History, message_tokens
from halo.runner.reporting import report, report_lost

# From a history and the tokens that it may have to the edits that shorten it.
Strategy = Callable[[View, int], tuple[Edit, ...]]

PLANS: Mapping[str, Strategy] = MappingProxyType({"prune": prune, "truncate": truncate})

# A history is shortened to this part of what it may fill. Each shortening changes the beginning of all later
# requests and costs the provider's cache once; going half-way down makes them rare.
_PART = 2

# Where a history cannot be made to fit, it is tried again when it has grown by this part of the limit, and it
# keeps at least that much even where the prefix leaves less.
_STEP = 8

# Seconds for a summary. The user waits for it.
_PATIENCE = 120.0


# What else is told while a history is shortened.
Meanwhile = UsageReported | UsageLost | Notice


class _Room(NamedTuple):
    """What a history may fill, and how many real tokens an estimated one stands for."""

    tokens: int
    scale: float


class _Summary(NamedTuple):
    """What a summary call came to: the text, or why there is none; what it cost; what was said meanwhile."""

    text: str
    problem: str
    events: tuple[Meanwhile, ...]


class Context:
    """Keeps the history of one conversation within the model's window.

    Asking whether something is needed costs nothing that grows with the history.
    """

    def __init__(
        self, runtime: Runtime, prefix: Prefix, adapter: Adapter, *, patience: float = _PATIENCE
    ) -> None:
        """`patience` is how many seconds a summary may take."""
        self._runtime, self._prefix, self._adapter, self._patience = runtime, prefix, adapter, patience
        window = runtime.context_tokens
        fill = min(int(runtime.compress_at * window), window - runtime.binding.max_tokens)
        self._limit = max(fill, window // 4)
        self._most = max(window - runtime.binding.max_tokens, self._limit)
        self._enough = self._limit

    @cached_property
    def _prefix_tokens(self) -> int:
        prefix = self._prefix
        return (
            estimate(prefix.system.encode())
            + sum(estimate(canonical_json(tool)) for tool in prefix.tools)
            + sum(map(message_tokens, prefix.few_shots))
        )

    def reason(self, history: History) -> str:
        """Say why `history` has to be shortened before the next call: `cap`, `fill`; empty if it has not."""
        most = self._runtime.max_messages
        if most is not None and len(history.messages) > most:
            return "cap"
        return "fill" if history.tokens(self._prefix_tokens) > self._enough else ""

    async def shorten(
        self, history: History, reason: str, *, harder: bool = False
    ) -> AsyncGenerator[ContextShortened | Meanwhile, None]:
        """Shorten `history` and yield what was done to it, each time after it was done.

        `reason` is that of `reason()`, or `overflow` where the provider found it too long; `harder`: what was
        done before was not enough. `truncate` is the last resort even where it is not listed: after an
        overflow, and where nothing else (a summary that failed) leaves room for a reply. Some servers say
        nothing when a request is too long, and drop its beginning.
        Yields no `ContextShortened` where nothing can be left out any more.
        """
        room = self._room(history, overflow=reason == "overflow", harder=harder)
        if reason == "cap" and self._runtime.max_messages is not None:
            if done := self._apply(
                history, "cap", cap(View.of(history), self._runtime.max_messages), reason, room
            ):
                yield done
            if not self._too_long(history, room):
                return
        strategies: list[str] = list(dict.fromkeys(self._runtime.strategies))
        if (harder or reason == "overflow") and "truncate" not in strategies:
            strategies.append("truncate")
        for name in strategies:
            if name == "summarise":
                async with aclosing(self._summarise(history, reason, room)) as events:
                    async for event in events:
                        yield event
            elif done := self._apply(history, name, PLANS[name](View.of(history), room.tokens), reason, room):
                yield done
            if sum(history.weights) <= room.tokens:
                break
        if "truncate" not in strategies and room.scale * self._estimate(history) > self._most:
            edits = truncate(View.of(history), room.tokens)
            done = self._apply(history, "truncate", edits, reason, room)
            if done is not None:
                yield done
        after = round(room.scale * self._estimate(history))
        self._enough = max(self._limit, after + self._limit // _STEP)

    def _estimate(self, history: History) -> int:
        return self._prefix_tokens + sum(history.weights)

    def _too_long(self, history: History, room: _Room) -> bool:
        return room.scale * self._estimate(history) > self._limit

    def _room(self, history: History, *, overflow: bool, harder: bool) -> _Room:
        """Return what the history may fill, in the words of the estimate.

        Where a provider has counted, the estimate is set right by that. One that found it too long has
        counted more than the limit, whatever was thought before.
        """
        real = history.tokens(self._prefix_tokens)
        if overflow or harder:
            real = max(real, self._limit)
        scale = max(1.0, real / max(1, self._estimate(history)))
        limit = int(self._limit / scale)
        least = 0 if overflow or harder else limit // _STEP
        tokens = max((limit - self._prefix_tokens) // _PART, least)
        return _Room(tokens // 2 if harder else tokens, scale)

    def _apply(
        self, history: History, strategy: str, edits: tuple[Edit, ...], reason: str, room: _Room
    ) -> ContextShortened | None:
        """Make edits and return their record; None, and nothing done, where they gain nothing."""
        if not edits:
            return None
        before, messages = self._estimate(history), len(history.messages)
        shorter = history.copy()
        shorter.apply(edits)
        after = self._estimate(shorter)
        if after >= before and not (strategy == "cap" and len(shorter.messages) < messages):
            return None
        history.apply(edits)
        return ContextShortened(
            strategy, edits, round(room.scale * before), round(room.scale * after), reason, messages
        )

    async def _summarise(
        self, history: History, reason: str, room: _Room
    ) -> AsyncGenerator[ContextShortened | Meanwhile, None]:
        planned = plan(View.of(history), room.tokens)
        if planned is None:
            return
        summary = await self._summary(planned, room)
        for event in summary.events:
            yield event
        problem = summary.problem
        if not problem:
            done = self._apply(history, "summarise", with_summary(planned, summary.text), reason, room)
            if done is not None:
                yield done
                return
            problem = "the summary is longer than what it sums up"
        yield Notice(f"warning: the conversation was not summarised: {problem}")

    async def _summary(self, planned: Plan, room: _Room) -> _Summary:
        """Ask for a summary; once more, on a shorter copy, where the history is too long for the provider."""
        events: list[Meanwhile] = []
        try:
            async with asyncio.timeout(self._patience):
                try:
                    finished = await self._ask(asked(planned.view), events)
                except ProviderError as error:
                    if error.kind != "overflow":
                        raise
                    finished = await self._ask(asked_shorter(planned.view, room.tokens), events)
        except TimeoutError:
            return _Summary("", f"it took longer than {self._patience:g} s", tuple(events))
        except HaloError as error:
            return _Summary("", str(error), tuple(events))
        return _Summary(finished.message.text, usable(finished), tuple(events))

    async def _ask(self, messages: tuple[Message, ...], events: list[Meanwhile]) -> Finished:
        """Make the call: with the same prefix, which is read from the cache, and with tools forbidden."""
        request = Request(self._prefix, messages, self._runtime.binding, tool_choice="none")
        finished: Finished | None = None
        attempts = 1
        async with aclosing(self._adapter.stream(request)) as stream:
            async for event in stream:
                if isinstance(event, Finished):
                    finished = event
                elif isinstance(event, Retrying):
                    attempts += 1
                elif isinstance(event, Lost):
                    events.append(report_lost(self._adapter.provider, event))
                elif isinstance(event, Notice):
                    events.append(event)
        assert finished is not None  # noqa: S101  # the adapter's promise
        events.append(report(self._adapter.provider, finished, attempts))
        return finished
