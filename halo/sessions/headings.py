"""The line above a message that says who sent it."""

from halo.files.visible import visible
from halo.records.incoming import Sender, Source

_NAME = 80  # characters of a name


def heading(sender: Sender) -> str:
    """Return the line that says who sent a message; empty for the user whose session it is."""
    match sender.kind:
        case "user":
            return f"(from {_one_line(sender.name)})" if sender.name else ""
        case "agent":
            return f"(from session {_one_line(sender.session)}, agent {_one_line(sender.agent)})"
        case _:
            return ""  # reports and events say themselves what they are


def _one_line(text: str) -> str:
    return " ".join(visible(text).split())[:_NAME]


def without_heading(text: str, sources: tuple[Source, ...]) -> str:
    """Return the text of a message that was made from `sources` without the line that stands above it."""
    head = heading(sources[0].sender) if sources else ""
    return text.removeprefix(f"{head}\n") if head else text
