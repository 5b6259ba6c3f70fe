"""Asks on the terminal whether a call may run."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from halo.files.visible import visible

if TYPE_CHECKING:
    from halo.tools.consent import Ask, Question

_LONGEST = 8_000  # characters of a call that are shown
_YES = frozenset({"y", "yes"})


def terminal_ask() -> "Ask | None":
    """Return what asks on the terminal; None where nobody sits at one.

    Somebody does if stderr is a terminal, and answers can be read from the terminal of the process or from
    stdin. A message that is piped in does not hinder.
    """
    if not sys.stderr.isatty():
        return None
    with _terminal() as found:
        if found is None:
            return None

    async def ask(question: "Question") -> bool:
        import asyncio

        # In a thread: Ctrl-C ends the turn at once, and nobody waits for the answer.
        return await asyncio.to_thread(_ask, question)

    return ask


def _ask(question: "Question") -> bool:
    with _terminal() as terminal:
        if terminal is None:
            return False
        read, write = terminal
        _forget_typed(read)
        write.write(question_text(question))
        write.flush()
        return read.readline().strip().lower() in _YES


def question_text(question: "Question") -> str:
    """Return what the user reads: every line of the call, with nothing in it that a terminal would act on."""
    text = question.text[:_LONGEST]
    lines = [f"  | {visible(line)}" for line in text.split("\n")]
    left = len(question.text) - len(text)
    more = [f"  [{left:,} more characters are not shown]"] if left else []
    return "\n".join(
        ["", f"The agent asks to run {visible(question.tool)}:", *lines, *more, "Allow it? [y/N] "]
    )


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[IO[str], IO[str]] | None]:
    """Open the terminal of this process for reading and writing; None where there is none."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0))
    except OSError:
        yield (sys.stdin, sys.stderr) if sys.stdin.isatty() else None
        return
    try:
        with (
            open(fd, encoding="utf-8", errors="replace", closefd=False) as read,
            open(fd, "w", encoding="utf-8", errors="replace", closefd=False) as write,
        ):
            yield read, write
    finally:
        os.close(fd)


def _forget_typed(terminal: IO[str]) -> None:
    """Drop what was typed before the question was there: it is no answer to it."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        termios.tcflush(terminal, termios.TCIFLUSH)
