"""What a tool is given and what it gives back."""

import re
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from halo.records.messages import Image
from halo.records.targets import Access
from halo.tools.sandbox.base import Commands, Files

# Characters of a result that the model is given; the rest it can ask for.
LONGEST = 30_000

_NOTES = 600  # characters of LONGEST that `Page` keeps free for what is said after the last line
_BRIEF = 200  # characters of a name or message that an error repeats

# Control characters would forge lines of a result; surrogates (names that are not UTF-8) have no UTF-8 form,
# so neither a provider nor the session's log could take them.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Outcome(NamedTuple):
    """The text for the model, whether it reports a failure, and pictures."""

    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


class ToolFailure(Exception):  # noqa: N818  # it is an answer to the model, not a fault of Halo
    """The model asked for something that cannot be done; the text tells it what to do instead."""


class Answer(NamedTuple):
    """A result that holds more than text."""

    text: str
    images: tuple[Image, ...] = ()


class Surroundings(NamedTuple):
    """What the tools of one turn act on.

    `workspace` is the workspace root; `skills` maps the visible skills that do not lie in the workspace to
    their folders (`skill:<id>/...`); `load_skill` returns the compiled text of a visible skill with arguments
    (empty: none) in it, None for an unknown id. `access` is what the turn may do. `commands` runs shell
    commands, None where none can be run, and `refusal` says why. `hidden` are files and folders that no tool
    may open, absolute or relative to the workspace. `secrets` maps the names of placeholders
    (`notes.params.token`) to values that commands may use and nobody may read. `private_hosts` are what
    web_fetch may reach although their address is private. `status` returns the figures of the session. `mask`
    takes the secrets out of every result.
    """

    workspace: Files
    skills: Mapping[str, Files]
    load_skill: Callable[[str, str], str | None]
    access: Access = "full"
    commands: Commands | None = None
    refusal: str = ""
    shell_seconds: float = 120
    secrets: Mapping[str, str] = MappingProxyType({})
    private_hosts: frozenset[str] = frozenset()
    status: Callable[[], str] = lambda: "nothing is known of this session"
    mask: Callable[[str], str] = lambda text: text
    hidden: tuple[str, ...] = ()


class Tool(Protocol):
    """A tool's implementation. Arguments are valid for the tool's schema."""

    def __call__(
        self, arguments: Mapping[str, Any], around: Surroundings
    ) -> str | Answer | Awaitable[str | Answer]:
        """Do it and return what the model is given; raise `ToolFailure` for what the model can mend.

        A coroutine function runs in the event loop and is cancelled with the turn; any other runs in a
        thread, which nobody waits for when the turn breaks off.
        """
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
