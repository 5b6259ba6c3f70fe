"""Threads for tools. Nobody waits for them when the program ends."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import NamedTuple, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_TOOL_WORK: ContextVar[bool] = ContextVar("halo.runner.threads", default=False)


@contextmanager
def tool_work() -> Iterator[None]:
    """Mark what is handed to a `ToolThreads` executor inside this block as work of a tool."""
    token = _TOOL_WORK.set(True)
    try:
        yield
    finally:
        _TOOL_WORK.reset(token)


class ToolThreads(ThreadPoolExecutor):
    """An event loop's default executor that can leave a tool behind.

    A thread cannot be cancelled. asyncio waits for the threads of its executor when the loop closes, and the
    interpreter once more when it ends, so that after Ctrl-C a tool that hangs would hold the process for
    ever. Work of a tool therefore gets a daemon thread of its own. All other work runs as usual: a model that
    is being loaded must not be torn off in the middle of C code.
    """

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run `fn` in a thread: a daemon inside `tool_work`, else one of the pool."""
        if not _TOOL_WORK.get():
            return super().submit(fn, *args, **kwargs)
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # it is raised where the result is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=work, name="halo tool", daemon=True).start()
        return future


class Raised(NamedTuple):
    """What a function raised, as a value."""

    error: BaseException


async def in_tool_thread(work: Callable[[], _T]) -> _T | Raised:
    """Run `work` in a daemon thread, whatever executor the loop has; return its result or what it raised.

    As a value, for some exceptions cannot pass a future or a coroutine: StopIteration hangs the one and is
    another error in the other, and KeyboardInterrupt would end a thread that nobody looks at.
    """

    def caught() -> _T | Raised:
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  # it is the caller's to judge
            return Raised(error)

    context = copy_context()
    with tool_work():
        running = asyncio.get_running_loop().run_in_executor(_THREADS, context.run, caught)
    return await running


# Has no pool: all that it is given is work of a tool.
_THREADS = ToolThreads()
