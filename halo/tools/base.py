"""What a tool is given and what it gives back."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from halo.files.roots import ConfinedRoot


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
    visible skill, None for an unknown id.
    """

    workspace: ConfinedRoot
    skills: Mapping[str, ConfinedRoot]
    load_skill: Callable[[str], str | None]


class Tool(Protocol):
    """A tool's implementation: sync, run in a thread. Arguments are valid for the tool's schema."""

    def __call__(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Do it and return the text for the model; raise `ToolFailure` for what the model can mend."""
        ...
