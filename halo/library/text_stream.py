"""A turn that runs while a program reads it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from halo.library.results import Result
from halo.models.adapter import TextDelta
from halo.runner.turn import TurnEvent

Emit = Callable[[TurnEvent], None]


class TextStream:
    """A running turn. It runs whether or not anybody reads, and may be read several times, from its start.

    Use it as an async context manager, or close it: leaving it before its end breaks the turn off.

        async with agent.stream_text("Hello") as stream:
            async for delta in stream.text():
                print(delta, end="")
            result = await stream.result()
    """

    def __init__(self, run: Callable[[Emit], Coroutine[Any, Any, Result]]) -> None:
        self._events: list[TurnEvent] = []
        self._more = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(run(self._emit), name="halo turn")
        self._task.add_done_callback(lambda _: self._more.set())

    def _emit(self, event: TurnEvent) -> None:
        self._events.append(event)
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[TurnEvent]:
        """Yield every event of the turn from its start; raise what the turn raises, after the last one."""
        position = 0
        while True:
            while position < len(self._events):
                position += 1
                yield self._events[position - 1]
            if self._task.done():
                self._task.result()
                return
            self._more.clear()
            await self._more.wait()

    async def text(self) -> AsyncIterator[str]:
        """Yield the words as they come.

        A call that is made again says them from the beginning; who must not show them twice reads the events
        and drops what came before a `Retrying`.
        """
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def result(self) -> Result:
        """Wait for the end and return the result. Raises what the turn raises, each time it is asked."""
        return await asyncio.shield(self._task)

    def when_over(self, tell: Callable[["TextStream"], object]) -> None:
        """Call `tell` with this stream when its turn is over."""
        self._task.add_done_callback(lambda _: tell(self))

    async def aclose(self) -> None:
        """Break the turn off if it still runs. What it said so far stays in the agent's history.

        Its tools have ended when this returns, also when it is cancelled meanwhile.
        """
        if not self._task.done():
            self._task.cancel()
        # Cancelled here, it cancels the turn once more, and waits. What that raised was told to whoever read.
        await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
