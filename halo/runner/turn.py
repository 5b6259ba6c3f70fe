"""One turn: a user's message, then model and tools in alternation until the model is done."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import NamedTuple, TypeVar

from halo.errors import ProviderError
from halo.models.adapter import Adapter, Finished, Notice, Request, Retrying, TextDelta, ThinkingDelta
from halo.models.prefix import Prefix
from halo.records.artifacts import Artifact, Runtime
from halo.records.budgets import Budgets
from halo.records.events import (
    ContextShortened,
    EndReason,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    UsageReported,
)
from halo.records.messages import Message, Text, ToolCall, ToolResult
from halo.records.usage import Usage
from halo.runner.budgets import Ledger, Price, Reached
from halo.runner.calls import call_ids, fresh_ids
from halo.runner.context.context import Context
from halo.runner.record import History
from halo.runner.repair import CUT_OFF, Storms, mend_arguments, waves
from halo.runner.reporting import charge, report
from halo.runner.slots import Filled
from halo.tools.toolbox import Toolbox

NOT_RUN = "This call was not run: the provider refused to go on."
OUT_OF_TIME = "This call was broken off: the time for this turn is over. It may have taken effect."
NOT_BEGUN = "This call was not run: {bound} is reached."

# What is said where a timer was a little faster than the ledger's clock.
TIME = Reached("time", "the time for this turn")

# How often a history that is too long for the provider is shortened for the same call.
_SHORTENINGS = 3

TurnEvent = (
    MessageAdded
    | ToolResultAdded
    | UsageReported
    | ContextShortened
    | Repaired
    | TurnEnded
    | TextDelta
    | ThinkingDelta
    | Retrying
    | Notice
)

_T = TypeVar("_T")


class Turn(NamedTuple):
    """What a turn is made of. `history` ends with the user's message; it grows with the turn."""

    artifact: Artifact
    system: Filled
    history: History

    @property
    def runtime(self) -> Runtime:
        """All that a turn needs beside the text."""
        runtime = self.artifact.manifest.runtime
        assert runtime is not None  # noqa: S101  # agents have one
        return runtime

    @property
    def prefix(self) -> Prefix:
        """What every request of the turn begins with."""
        return prefix_of(self.artifact, self.system)


def prefix_of(artifact: Artifact, system: Filled) -> Prefix:
    """Return what every request of an artifact begins with, its slots filled."""
    manifest = artifact.manifest
    return Prefix(
        system.text,
        system.static_prefix,
        manifest.tools,
        manifest.few_shots,
        manifest.fingerprint,
        artifact.prompt,
    )


def free(_: Usage) -> None:
    """Say that nothing is known of what a call costs."""


def turn_ledger(
    budgets: Budgets, clock: Callable[[], float] = time.monotonic, run: Ledger | None = None
) -> Ledger:
    """Return the ledger of a turn within its run; without `run`, of one that has used nothing yet."""
    return Ledger("turn", budgets.turn, clock, parent=run or Ledger("run", budgets.run, clock))


async def run_turn(
    turn: Turn,
    adapter: Adapter,
    toolbox: Toolbox,
    *,
    ledger: Ledger | None = None,
    price: Price = free,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[TurnEvent, None]:
    """Run a turn and yield what happens, in order.

    Whoever consumes it keeps the records (all but deltas, `Retrying` and `Notice`) before asking for the next
    event: nothing goes on before it is kept. Ends with `TurnEnded`, or raises what the adapter raises, and
    StartError for a budget in money without a price. A consumer that breaks off closes this generator, which
    ends the call or the tools that run. `clock` is in seconds.
    """
    ledger = ledger or turn_ledger(turn.runtime.budgets, clock)
    ledger.check_priced(price, turn.runtime.binding.model)
    loop = _Loop(turn, adapter, toolbox, ledger, price, clock)
    async with aclosing(loop.run()) as events:
        async for event in events:
            yield event


class _Over(Exception):  # noqa: N818  # it is no error: a turn ends by it
    """A bound of the turn, or of its run, is reached."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached


class _Loop:
    """A running turn."""

    def __init__(
        self,
        turn: Turn,
        adapter: Adapter,
        toolbox: Toolbox,
        ledger: Ledger,
        price: Price,
        clock: Callable[[], float],
    ) -> None:
        self._adapter, self._toolbox = adapter, toolbox
        self._ledger, self._price, self._clock = ledger, price, clock
        self._prefix, self._runtime, self._history = turn.prefix, turn.runtime, turn.history
        self._few_shot_ids = call_ids(self._prefix.few_shots)
        self._context = Context(self._runtime, self._prefix, adapter)
        self._storms = Storms()
        self._finished: Finished | None = None
        self._attempts = 1
        self._said: list[str] = []  # the words of this call
        self._late = False  # the time was over while tools ran

    async def run(self) -> AsyncGenerator[TurnEvent, None]:
        """Go round until there is a reason to end."""
        while True:
            try:
                async with aclosing(self._reply()) as events:
                    async for event in events:
                        yield event
            except _Over as over:
                yield Notice(f"the turn ends: {over.reached.bound} is reached")
                yield TurnEnded(over.reached.reason)
                return
            finished = self._finished
            assert finished is not None  # noqa: S101  # the adapter's promise
            message = finished.message if finished.message.content else Message("assistant", (Text(""),))
            message = fresh_ids(message, self._few_shot_ids | self._history.call_ids)
            message, repairs = mend_arguments(message, finished.stop_reason, self._toolbox.fits)
            for repair in repairs:
                yield repair
            self._history.extend((message,))
            if finished.usage.prompt:  # some servers count nothing, or only what they produce
                self._history.measured(finished.usage.prompt + finished.usage.output)
            yield MessageAdded(message)
            yield self._charged(report(self._adapter.provider, finished, self._attempts))
            if not message.calls:
                yield TurnEnded(_reason(finished))
                return
            results: list[ToolResult] = []
            async with aclosing(self._answer(message.calls, finished)) as answers:
                async for answer in answers:
                    if isinstance(answer, ToolResultAdded):
                        results.append(answer.result)
                    yield answer
            self._history.extend((Message("user", tuple(results)),))
            if finished.stop_reason == "refusal":
                yield TurnEnded("refusal")
                return
            if self._storms.over:
                yield Notice("the turn ends: the model makes the same call again and again")
                yield TurnEnded("storm")
                return

    async def _reply(self) -> AsyncGenerator[TurnEvent, None]:
        """Get the next reply, from a history that has been shortened if need be."""
        self._check()
        async with aclosing(self._shorten(self._context.reason(self._history))) as events:
            async for event in events:
                yield event
        async with aclosing(self._call()) as events:
            async for event in events:
                yield event

    def _check(self) -> None:
        """Raise `_Over` if a bound is reached."""
        reached = self._ledger.reached()
        if reached is not None:
            raise _Over(reached)

    async def _shorten(self, reason: str, *, harder: bool = False) -> AsyncGenerator[TurnEvent, None]:
        """Shorten the history where `reason` asks for it; what that costs is part of the turn."""
        if not reason:
            return
        shortening = self._context.shorten(self._history, reason, harder=harder)
        async with aclosing(self._timed(shortening)) as events:
            async for event in events:
                yield self._charged(event) if isinstance(event, UsageReported) else event
        self._check()  # a summary is a call, too

    async def _call(self) -> AsyncGenerator[TurnEvent, None]:
        """Make a model call; a history that is too long for the provider is shortened, and sent again."""
        for shortenings in range(_SHORTENINGS + 1):
            try:
                async with aclosing(self._stream()) as events:
                    async for event in events:
                        yield event
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

    async def _stream(self) -> AsyncGenerator[TurnEvent, None]:
        request = Request(self._prefix, self._history.messages, self._runtime.binding)
        self._finished, self._attempts, self._said = None, 1, []
        try:
            async with aclosing(self._timed(self._adapter.stream(request))) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        self._finished = event
                        continue
                    if isinstance(event, Retrying):
                        self._attempts += 1
                        self._said.clear()
                    elif isinstance(event, TextDelta):
                        self._said.append(event.text)
                    yield event
        except _Over:
            if self._said:  # it was shown, so it stays
                message = Message("assistant", (Text("".join(self._said)),))
                self._history.extend((message,))
                yield MessageAdded(message, partial=True)
            raise

    async def _answer(
        self, calls: tuple[ToolCall, ...], finished: Finished
    ) -> AsyncGenerator[ToolResultAdded | Repaired, None]:
        """Answer every call, in order: run it, or say why it is not run."""
        if finished.stop_reason == "refusal":
            for call in calls:
                yield ToolResultAdded(ToolResult(call.id, NOT_RUN, is_error=True), call.name)
            return
        # The last call may be cut short, even where it looks whole.
        cut = calls[-1].id if finished.stop_reason == "max_tokens" else None
        self._storms.begin()
        for wave in waves(calls):
            refused: dict[str, ToolResult] = {}
            for call in wave:
                if call.id == cut:
                    refused[call.id] = ToolResult(call.id, CUT_OFF, is_error=True)
                elif (storm := self._storms.suppress(call)) is not None:
                    refused[call.id], repair = storm
                    yield repair
            async with aclosing(self._run(wave, refused)) as answers:
                async for answer in answers:
                    yield answer

    async def _run(
        self, calls: list[ToolCall], refused: dict[str, ToolResult]
    ) -> AsyncGenerator[ToolResultAdded, None]:
        """Run calls but for those that have been refused, and answer all of them in order."""
        running = [call for call in calls if call.id not in refused]
        async with aclosing(self._timed(self._toolbox.run_batch(running, self._clock))) as batch:
            for call in calls:
                if call.id in refused:
                    yield ToolResultAdded(refused[call.id], call.name)
                    continue
                took = 0
                if self._late:
                    text = NOT_BEGUN.format(bound=(self._ledger.reached() or TIME).bound)
                    result = ToolResult(call.id, text, is_error=True)
                else:
                    try:
                        _, result, took = await anext(batch)
                        self._storms.note(call, result)
                    except _Over:
                        self._late = True
                        result = ToolResult(call.id, OUT_OF_TIME, is_error=True)
                yield ToolResultAdded(result, call.name, took)

    async def _timed(self, source: AsyncIterator[_T]) -> AsyncGenerator[_T, None]:
        """Pass on what `source` yields; raise `_Over`, and close it, when the turn's time is over."""
        try:
            while True:
                left = self._ledger.seconds_left()
                if left == 0:  # nothing is begun any more
                    raise _Over(self._ledger.reached() or TIME)
                try:
                    async with asyncio.timeout(left) as timer:
                        item = await anext(source)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if not timer.expired():
                        raise  # it is the source's own
                    raise _Over(self._ledger.reached() or TIME) from None
                yield item
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    def _charged(self, call: UsageReported) -> UsageReported:
        return charge(self._ledger, self._price, call)


def _reason(finished: Finished) -> EndReason:
    match finished.stop_reason:
        case "max_tokens" | "refusal" as reason:
            return reason
        case _:
            return "done"
