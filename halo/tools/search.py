"""A regular expression that somebody else wrote, run in a process of its own.

A few characters can take all memory (`(?:(?:a{1000}){1000}){1000}` 1 GB a second, `(?R)`), all time, or the
stack, and most of that happens inside one call of C code, where no thread of this process could stop it. The
`regex` package's own timeout covers time in a search alone. So a child compiles and searches, with a memory
limit, and is killed at one deadline for the whole call. Each match is sent back at once, so what was found
before is kept.

Always, also for harmless patterns: the child costs 40 ms a call and about 40 microseconds a file, which is
nothing beside a model's reply, and telling harmless patterns from others would take a parser of them that is
never wrong. On macOS and Windows, which do not enforce a memory limit, the deadline bounds the memory too.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, Self

from halo.tools.base import ToolFailure, brief

_MEMORY = 512 * 1024 * 1024  # bytes of address space; Python and `regex` take 30 MiB, an 8 MiB file up to 40
_CHILD = os.path.join(os.path.dirname(__file__), "search_child.py")


class SearchStopped(Exception):  # noqa: N818  # an outcome that the caller reports
    """The search ended before all was searched; the text says why, to follow "was stopped"."""


class Match(NamedTuple):
    """A line that matches: its number from 1, its start, and how many characters it has in all."""

    number: int
    text: str
    length: int


class Search:
    """A context manager around the child. `seconds` is the time for everything between enter and exit."""

    def __init__(self, pattern: str, seconds: float) -> None:
        self._pattern = pattern
        self._seconds = seconds
        self._expired = False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the child and compile; `ToolFailure` for what is no expression or cannot be compiled."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", _CHILD, self._options()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._timer.start()
            self._ends = time.monotonic() + self._seconds
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):  # what was not flushed has no reader any more
                pipe.close()
        self._process.wait()

    @property
    def left(self) -> float:
        """Seconds until it is stopped."""
        return self._ends - time.monotonic()

    def check(self) -> None:
        """Raise `SearchStopped` if the time is over, for a caller that is busy elsewhere."""
        if self._expired:
            raise SearchStopped(self._why())

    def matches(self, data: bytes, most: int) -> Iterator[Match]:
        """Yield the matching lines of a file, at most `most`; raise `SearchStopped`. Exhaust it."""
        self._send(f"{len(data)} {most}\n".encode() + data)
        while isinstance(answer := self._answer(), list):
            yield Match(*answer)
        if answer is not None:
            raise SearchStopped(_because(answer))

    def _options(self) -> str:
        import importlib.util

        found = importlib.util.find_spec("regex")
        if found is None or found.origin is None:
            raise ModuleNotFoundError("the package `regex` is not installed")
        folder = os.path.dirname(os.path.dirname(found.origin))
        return json.dumps({"path": folder, "memory": _MEMORY, "seconds": int(self._seconds) + 2})

    def _begin(self) -> None:
        try:
            self._answer()  # ready
        except SearchStopped as error:
            raise RuntimeError("the process that searches did not start") from error
        try:
            self._send(json.dumps(self._pattern).encode() + b"\n")
            answer = self._answer()
        except SearchStopped as error:
            raise ToolFailure(f"the pattern was given up {error}; simplify it") from error
        if answer is None:
            return
        if "wrong" in answer:
            raise ToolFailure(f"not a regular expression: {brief(answer['wrong'])}")
        raise ToolFailure(f"the pattern was given up {_because(answer)}; simplify it")

    def _send(self, data: bytes) -> None:
        try:
            self._stdin.write(data)
            self._stdin.flush()
        except OSError as error:  # the child is gone
            raise SearchStopped(self._why()) from error

    def _answer(self) -> Any:
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            raise SearchStopped(self._why())
        return json.loads(line)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None  # noqa: S101  # it was asked for
        return self._process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None  # noqa: S101  # it was asked for
        return self._process.stdout

    def _expire(self) -> None:
        self._expired = True
        self._process.kill()  # ends the reads and writes above, on every system

    def _why(self) -> str:
        return f"after {self._seconds:g} seconds" if self._expired else "because its process died"


def _because(answer: dict[str, str]) -> str:
    failed = answer.get("failed", "error")
    if failed == "MemoryError":
        return "because it needs too much memory"
    if failed == "RecursionError":
        return "because it is nested too deeply"
    return f"because of a {failed}"
