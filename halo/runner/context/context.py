"""When a history is shortened, by which strategies, and how far."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.adapter import Adapter, Notice
from halo.models.prefix import Prefix
from halo.records.artifacts import Runtime
from halo.records.events import ContextShortened, Edit
from halo.records.session_events import CompactionFailed, MemoryFlushed
from halo.runner.context.asking import Asking, Meanwhile
from halo.runner.context.cap import cap
from halo.runner.context.flushing import Flush, flush_notes
from halo.runner.context.old_results import OldResults
from halo.runner.context.prune import prune
from halo.runner.context.summarise import Plan, plan, plan_all, with_summary
from halo.runner.context.summing import summary_of
from halo.runner.context.truncate import truncate
from halo.runner.context.units import View
from halo.runner.record import History, message_tokens

# From a history and the tokens that it may have to the edits that shorten it.
Strategy = Callable[[View, int], tuple[Edit, ...]]

PLANS: Mapping[str, Strategy] = MappingProxyType({"prune": prune, "truncate": truncate})

# A history is shortened to this part of what it may fill. Each shortening changes the beginning of all later
# requests and costs the provider's cache once; going half-way down makes them rare.
_PART = 2

# Where a history cannot be made to fit, it is tried again when it has grown by this part of the limit, and it
# keeps at least that much even where the prefix leaves less.
_STEP = 8

# Seconds for one question about a copy of the history. The user waits for it.
_PATIENCE = 120.0

# What is told while a history is shortened.
Shortening = ContextShortened | CompactionFailed | MemoryFlushed | Meanwhile


class _Room(NamedTuple):
    """What a history may fill, and how many real tokens an estimated one stands for."""

    tokens: int
    scale: float


def limit_of(runtime: Runtime) -> int:
    """Return how many tokens a request may have before its history is shortened."""
    window = runtime.context_tokens
    fill = min(int(runtime.compress_at * window), window - runtime.binding.max_tokens)
    return max(fill, window // 4)


class Context:
    """Keeps the history of one conversation within the model's window.

    Asking whether something is needed costs nothing that grows with the history.
    """

    def __init__(
        self,
        runtime: Runtime,
        prefix: Prefix,
        adapter: Adapter,
        *,
        patience: float = _PATIENCE,
        flush: Flush | None = None,
    ) -> None:
        """`patience` is how many seconds a question may take; `flush` keeps notes of what will be lost."""
        self._runtime, self._prefix, self._flush = runtime, prefix, flush
        self._asking = Asking(prefix, runtime.binding, adapter, patience)
        window = runtime.context_tokens
        self._limit = limit_of(runtime)
        self._rest = min(self._limit, max(window - (runtime.reserve_tokens or 0), window // 4))
        self._most = max(window - runtime.binding.max_tokens, self._limit)
        self._enough = self._limit
        self._old_results = OldResults(self._limit, self.step)

    @cached_property
    def _prefix_tokens(self) -> int:
        prefix = self._prefix
        return (
            estimate(prefix.system.encode())
            + sum(estimate(canonical_json(tool)) for tool in prefix.tools)
            + sum(map(message_tokens, prefix.few_shots))
        )

    def reason(self, history: History, *, cold: bool = False) -> str:
        """Say why `history` has to be shortened before the next call; empty if it has not.

        `cap`, `fill`; `cold`, `size`: it need not be, but is full of old results of tools. `cold` says that
        the provider's cache holds nothing of it.
        """
        most = self._runtime.max_messages
        if most is not None and len(history.messages) > most:
            return "cap"
        tokens = history.tokens(self._prefix_tokens)
        if tokens > self._enough:
            return "fill"
        if "prune" not in self._runtime.strategies:
            return ""
        return self._old_results.reason(history, tokens, cold=cold)

    def after_turn(self, history: History) -> int:
        """Return the tokens of a history that is to be shortened now that a turn is over; else 0."""
        tokens = history.tokens(self._prefix_tokens)
        return tokens if tokens > self._rest else 0

    @property
    def step(self) -> int:
        """How much a history grows until what could not be done is tried again."""
        return self._limit // _STEP

    async def shorten(
        self, history: History, reason: str, *, harder: bool = False
    ) -> AsyncGenerator[Shortening, None]:
        """Shorten `history` and yield what was done to it, each time after it was done.

        `reason` is that of `reason()`, `turn` when one is over, or `overflow` where the provider found it too
        long; `harder`: what was done before was not enough. `truncate` is the last resort even where it is
        not listed: after an overflow, and where nothing else (a summary that failed) leaves room for a reply.
        Some servers say nothing when a request is too long, and drop its beginning.
        Yields no `ContextShortened` where nothing can be left out any more. Before anything is lost but
        results of tools, notes of it are kept.
        """
        limit = self._rest if reason == "turn" else self._limit
        room = self._room(history, limit, overflow=reason == "overflow", harder=harder)
        strategies: list[str] = list(dict.fromkeys(self._runtime.strategies))
        if reason in ("cold", "size"):
            strategies = ["prune"]
        if reason == "cap" and self._runtime.max_messages is not None:
            edits = cap(View.of(history), self._runtime.max_messages)
            async for event in self._lose(history, "cap", edits, reason, room):
                yield event
            if not self._too_long(history, room):
                return
        if (harder or reason == "overflow") and "truncate" not in strategies:
            strategies.append("truncate")
        for name in strategies:
            if name == "summarise":
                planned = plan(View.of(history), room.tokens)
                async with aclosing(self._summarise(history, planned, reason, room)) as events:
                    async for event in events:
                        yield event
            else:
                edits = PLANS[name](View.of(history), room.tokens)
                async for event in self._lose(history, name, edits, reason, room):
                    yield event
            if sum(history.weights) <= room.tokens:
                break
        if "truncate" not in strategies and room.scale * self._estimate(history) > self._most:
            edits = truncate(View.of(history), room.tokens)
            async for event in self._lose(history, "truncate", edits, reason, room):
                yield event
        after = round(room.scale * self._estimate(history))
        self._enough = max(self._limit, after + self.step)

    async def compact(self, history: History, wishes: str) -> AsyncGenerator[Shortening, None]:
        """Put a summary in the place of all that may be summed up, because the user wants it.

        `wishes` are the user's words about it. Yields nothing where there is nothing to sum up.
        """
        room = self._room(history, self._limit, overflow=False, harder=False)
        planned = plan_all(View.of(history), room.tokens)
        async with aclosing(self._summarise(history, planned, "manual", room, wishes)) as events:
            async for event in events:
                yield event

    def _estimate(self, history: History) -> int:
        return self._prefix_tokens + sum(history.weights)

    def _too_long(self, history: History, room: _Room) -> bool:
        return room.scale * self._estimate(history) > self._limit

    def _room(self, history: History, limit: int, *, overflow: bool, harder: bool) -> _Room:
        """Return what the history may fill, in the words of the estimate.

        Where a provider has counted, the estimate is set right by that. One that found it too long has
        counted more than the limit, whatever was thought before.
        """
        real = history.tokens(self._prefix_tokens)
        if overflow or harder:
            real = max(real, limit)
        scale = max(1.0, real / max(1, self._estimate(history)))
        limit = int(limit / scale)
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

    async def _lose(
        self, history: History, strategy: str, edits: tuple[Edit, ...], reason: str, room: _Room
    ) -> AsyncGenerator[Shortening, None]:
        """Make edits; where they take out more than results of tools, notes are kept before."""
        if edits and strategy != "prune":
            for event in await self._notes(history, reason, room):
                yield event
        done = self._apply(history, strategy, edits, reason, room)
        if done is not None:
            yield done

    async def _notes(self, history: History, reason: str, room: _Room) -> tuple[Shortening, ...]:
        if self._flush is None:
            return ()
        too_long = reason == "overflow"
        return await flush_notes(self._flush, self._asking, View.of(history), room.tokens, too_long=too_long)

    async def _summarise(
        self, history: History, planned: Plan | None, reason: str, room: _Room, wishes: str = ""
    ) -> AsyncGenerator[Shortening, None]:
        if planned is None:
            return
        for event in await self._notes(history, reason, room):
            yield event
        summary = await summary_of(self._asking, planned, room.tokens, wishes)
        for told in summary.events:
            yield told
        problem = summary.problem
        if not problem:
            done = self._apply(history, "summarise", with_summary(planned, summary.text), reason, room)
            if done is not None:
                yield done
                return
            problem = "the summary is longer than what it sums up"
        yield CompactionFailed(problem, reason, round(room.scale * self._estimate(history)))
        yield Notice(f"warning: the conversation was not summarised: {problem}")
