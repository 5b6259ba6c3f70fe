"""Threads for tools. Nobody waits for them when the program ends."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

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
