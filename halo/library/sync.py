"""The same agents for programs without an event loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

from halo.files.closing import Closing
from halo.library.agent import Agent
from halo.library.inputs import Input
from halo.library.results import Object, Reply, Result, Stats
from halo.library.text_stream import TextStream
from halo.library.workspace import Workspace
from halo.models.prefix import Prefix
from halo.records.messages import ToolCall, ToolResult
from halo.records.usage import Usage
from halo.runner.turn import TurnEvent
from halo.tools.threads import ToolThreads

_T = TypeVar("_T")


class SyncAgent(Closing):
    """An `Agent` whose coroutines run in an event loop of its own, in a thread.

    So it works in scripts, in a debugger and in notebooks alike. Everything else is that of `agent`: its
    history, notices and changes. Ctrl-C breaks the running turn off. Close it, or use it as a context
    manager.
    """

    def __init__(self, agent: Agent) -> None:
        """Take over an agent that is not used elsewhere."""
        self.agent = agent
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ToolThreads())
        self._thread = threading.Thread(target=self._loop.run_forever, name="halo agent", daemon=True)
        self._thread.start()

    @classmethod
    def load(
        cls, workspace: Workspace | str | os.PathLike[str] = ".", agent: str = "default", **options: Any
    ) -> Self:
        """Load an agent; options as in `Agent.load`."""
        return cls(Agent.load(workspace, agent, **options))

    @property
    def prefix(self) -> Prefix:
        """See `Agent.prefix`."""
        return self.agent.prefix

    @property
    def stats(self) -> Stats:
        """See `Agent.stats`; it may be read while a turn runs."""
        return self.agent.stats

    def generate_text(self, message: Input) -> Result:
        """See `Agent.generate_text`."""
        return self._wait(self.agent.generate_text(message))

    def generate_object(self, message: Input, schema: dict[str, Any] | type) -> Object:
        """See `Agent.generate_object`."""
        return self._wait(self.agent.generate_object(message, schema))

    def stream_text(self, message: Input) -> "SyncStream":
        """See `Agent.stream_text`; the events are read by a plain loop."""

        async def begin() -> TextStream:
            return self.agent.stream_text(message)

        return SyncStream(self._wait(begin()), self._wait)

    def send(self, message: Input) -> Reply:
        """See `Agent.send`."""
        return self._wait(self.agent.send(message))

    def submit_tool_results(self, results: Mapping[str, str] | Iterable[ToolResult]) -> Reply:
        """See `Agent.submit_tool_results`."""
        return self._wait(self.agent.submit_tool_results(results))

    def execute(self, call: ToolCall) -> ToolResult:
        """See `Agent.execute`."""
        return self._wait(self.agent.execute(call))

    def warm(self) -> Usage:
        """See `Agent.warm`."""
        return self._wait(self.agent.warm())

    def clear_history(self) -> None:
        """See `Agent.clear_history`."""
        self.agent.clear_history()

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this agent is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: the turn ends, and its tools with it
            raise

    def close(self) -> None:
        """Let go of connections, engines and the thread. May be called twice."""
        if self._loop.is_closed():
            return
        self._wait(self.agent.close())
        self._wait(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncStream(Closing):
    """A running turn, read by a plain loop; see `TextStream`."""

    def __init__(self, stream: TextStream, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._stream, self._wait = stream, wait

    def __iter__(self) -> Iterator[TurnEvent]:
        """Yield every event from the start."""
        return self._pull(aiter(self._stream))

    def text(self) -> Iterator[str]:
        """Yield the words as they come."""
        return self._pull(self._stream.text())

    def _pull(self, source: Any) -> Iterator[Any]:
        end = object()

        async def step() -> Any:
            return await anext(source, end)

        while (item := self._wait(step())) is not end:
            yield item

    def result(self) -> Result:
        """Wait for the end; see `TextStream.result`."""
        result: Result = self._wait(self._stream.result())
        return result

    def close(self) -> None:
        """Break the turn off if it still runs."""
        self._wait(self._stream.aclose())
