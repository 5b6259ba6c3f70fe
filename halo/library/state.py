"""What changes while an agent lives: its history, and the figures of what it has used."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager

import msgspec

from halo.errors import BusyError
from halo.library.memory import Memory
from halo.library.results import Stats
from halo.models.adapter import Retrying, TextDelta
from halo.records.events import MessageAdded, TurnEnded, UsageLost, UsageReported
from halo.records.messages import Message, Text
from halo.runner.record import History
from halo.runner.turn import TurnEvent

# Runs a turn on a history, whose last message is the user's.
Run = Callable[[History], AsyncGenerator[TurnEvent, None]]


class AgentState:
    """One change at a time, and none that failed: a call that was not answered leaves no trace."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._stats = Stats()
        self._busy = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._memory.messages

    @property
    def stats(self) -> Stats:
        """What has been used so far."""
        return self._stats

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others out. Raises BusyError while a turn runs: two would write into one history."""
        if self._busy:
            raise BusyError("a turn of this agent is running", hint="wait for it, or load another agent")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    @contextmanager
    def changing(self) -> Iterator[Memory]:
        """Hand out a copy of the history; it takes the history's place unless something is raised."""
        with self.held():
            changed = self._memory.copy()
            yield changed
            self._memory = changed

    def replace(self, messages: tuple[Message, ...] = ()) -> None:
        """Put another conversation in the place of this one."""
        with self.held():
            self._memory = Memory(messages)

    def count(self, used: UsageReported | UsageLost) -> None:
        """Add a model call, or an attempt that failed."""
        stats = self._stats
        self._stats = stats.with_call(used) if isinstance(used, UsageReported) else stats.with_lost(used)

    def count_turn(self) -> None:
        """Add a turn that is over."""
        self._stats = msgspec.structs.replace(self._stats, turns=self._stats.turns + 1)

    async def turn(self, message: Message, run: Run) -> AsyncGenerator[TurnEvent, None]:
        """Run a turn that begins with `message`; pass on its events and keep what they record.

        One that failed before the model said anything leaves no trace. Of any other one stays what was said,
        with every call answered.
        """
        with self.held():
            before, self._memory = self._memory, self._memory.copy()
            unrecorded: list[str] = []
            spoke = False
            try:
                self._memory.add(message)
                async with aclosing(run(self._memory.history)) as events:
                    async for event in events:
                        self._keep(event)
                        spoke = spoke or isinstance(event, MessageAdded)
                        _follow(unrecorded, event)
                        yield event
            except (asyncio.CancelledError, GeneratorExit):
                # Who broke it off has read what was said so far: it stays.
                if unrecorded:
                    self._memory.add(Message("assistant", (Text("".join(unrecorded)),)))
                elif not spoke:
                    self._memory = before
                raise
            except BaseException:
                if not spoke:
                    self._memory = before
                raise
            finally:
                self._memory.settle()

    def _keep(self, event: TurnEvent) -> None:
        self._memory.feed(event)
        if isinstance(event, (UsageReported, UsageLost)):
            self.count(event)
        elif isinstance(event, TurnEnded):
            self.count_turn()


def _follow(unrecorded: list[str], event: TurnEvent) -> None:
    """Keep the words that no recorded message holds yet."""
    if isinstance(event, TextDelta):
        unrecorded.append(event.text)
    elif isinstance(event, (MessageAdded, Retrying)):
        unrecorded.clear()
