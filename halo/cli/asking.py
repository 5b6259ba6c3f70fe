"""Asks on the terminal whether a call may run."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from halo.files.visible import visible

if TYPE_CHECKING:
    from halo.tools.consent import Ask, Question

_LONGEST = 8_000  # characters of a call that are shown at first
_YES = frozenset({"y", "yes"})
_VIEW = frozenset({"v", "view"})


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
        answer = _answer(question_text(question), read, write)
        if answer in _VIEW:
            answer = _answer(question_text(question, whole=True), read, write)
        return answer in _YES


def _answer(text: str, read: IO[str], write: IO[str]) -> str:
    _forget_typed(read)
    write.write(text)
    write.flush()
    return read.readline().strip().lower()


def question_text(question: "Question", *, whole: bool = False) -> str:
    """Return what the user reads: every line of the call, with nothing in it that a terminal would act on.

    Of a long call it is the beginning, how much more there is, and an offer to see all of it: `whole`.
    """
    text = question.text if whole else question.text[:_LONGEST]
    left = len(question.text) - len(text)
    return "\n".join(
        [
            "",
            f"The agent asks to run {visible(question.tool)}:",
            *(f"  | {visible(line)}" for line in text.split("\n")),
            *([f"  [{left:,} more characters are not shown; v shows all of it]"] if left else []),
            *([f"You are asked because {visible(question.why)}."] if question.why else []),
            "Allow it? [y/N/v] " if left else "Allow it? [y/N] ",
        ]
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
