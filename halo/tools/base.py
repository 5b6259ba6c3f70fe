"""What a tool is given and what it gives back."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from halo.files.roots import ConfinedRoot

# Characters of a result that the model is given; the rest it can ask for.
LONGEST = 30_000

_NOTES = 600  # characters of LONGEST that `Page` keeps free for what is said after the last line
_BRIEF = 200  # characters of a name or message that an error repeats

# Control characters would forge lines of a result; surrogates (names that are not UTF-8) have no UTF-8 form,
# so neither a provider nor the session's log could take them.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Outcome(NamedTuple):
    """The text for the model, and whether it reports a failure."""

    text: str
    is_error: bool = False


class ToolFailure(Exception):  # noqa: N818  # it is an answer to the model, not a fault of Halo
    """The model asked for something that cannot be done; the text tells it what to do instead."""


class Surroundings(NamedTuple):
    """Where the tools of one turn may look.

    `workspace` is the confined workspace root; `skills` maps the visible skills that do not lie in the
    workspace to their confined folders (`skill:<id>/...`); `load_skill` returns the compiled text of a
    visible skill with arguments (empty: none) in it, None for an unknown id.
    """

    workspace: ConfinedRoot
    skills: Mapping[str, ConfinedRoot]
    load_skill: Callable[[str, str], str | None]


class Tool(Protocol):
    """A tool's implementation: sync, run in a thread. Arguments are valid for the tool's schema."""

    def __call__(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Do it and return the text for the model; raise `ToolFailure` for what the model can mend."""
        ...


class Page:
    """Whole lines of a result, as many as fit below `LONGEST` with room for notes after them.

    A tool that stops by itself can say how to go on; the toolbox's own cut would fall into a line and take
    that hint away.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.room = LONGEST - _NOTES

    def add(self, line: str) -> bool:
        """Take the line, or return False and take nothing if it does not fit any more."""
        if len(line) + 1 > self.room:
            return False
        self.room -= len(line) + 1
        self.lines.append(line)
        return True


def visible(name: str) -> str:
    """Return a name from the disk as one line of valid Unicode; what is neither becomes U+FFFD."""
    return _INVISIBLE.sub("\ufffd", name)


def encodable(text: str) -> str:
    """Return the text with surrogates replaced, so that it can be sent and logged."""
    return _SURROGATE.sub("\ufffd", text)


def brief(text: str) -> str:
    """Return what an error repeats of a text that somebody else chose: one line of bounded length."""
    text = visible(text)
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}..."
