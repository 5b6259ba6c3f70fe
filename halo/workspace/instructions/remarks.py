"""The words in which what was left out of the instruction files of other tools is said."""

from halo.errors import HaloError
from halo.records.diagnostics import Diagnostic
from halo.workspace.instructions.foreign import Foreign, shown
from halo.workspace.layers import Layer, one_line

_LONGEST = 80  # characters of a path that a text names


def refused(name: str, why: str, where: str, line: int) -> Diagnostic:
    """Say that a reference stays text."""
    return Diagnostic("import-refused", "warning", f"@{_short(name)}: {why}", where, line)


def circle(steps: tuple[str, ...], where: str, line: int) -> Diagnostic:
    """Say that files import each other."""
    chain = " → ".join(one_line(shown(step)) for step in steps)
    return Diagnostic("import-cycle", "warning", f"these files import each other: {chain}", where, line)


def limit(message: str, where: str, line: int = 0) -> Diagnostic:
    """Say that one of the limits is reached."""
    return Diagnostic("instruction-limit", "warning", message, where, line)


def unreadable(error: HaloError, where: str) -> Diagnostic:
    """Say that a file or a folder could not be read."""
    message = f"left out: {error.message}"
    return Diagnostic("instruction-unreadable", "warning", message, where, error.line or 0)


def duplicate(layer: Layer, holder: str, where: str, line: int = 0) -> Diagnostic:
    """Say that a text is in the prompt already, from the source `holder`."""
    name = one_line(shown(layer.source))
    message = f"{name} is in the prompt already"
    if layer.source != holder:
        message = f"{name} is left out: the same text is in the prompt from {one_line(shown(holder))}"
    return Diagnostic("instruction-duplicate", "info", message, where, line)


def pointless(source: str) -> Diagnostic:
    """Say that a file holds nothing but references to what the prompt has."""
    message = "left out: it only names what the prompt has already, or cannot have"
    return Diagnostic("instruction-duplicate", "info", message, source)


def exported(found: Foreign, where: str, line: int = 0) -> Diagnostic:
    """Say that a file was written by `halo export`: its layers are in the prompt anyway."""
    name = one_line(shown(found.layer.source))
    if found.state == "ours":
        message = f"{name} is left out: Halo exported it from its own layers"
        return Diagnostic("instruction-export", "info", message, where, line)
    message = f"{name} is left out: Halo exported it, and it was changed since; put the change into .halo/"
    return Diagnostic("instruction-export", "warning", message, where, line)


def aside(count: int, of: int, reasons: list[tuple[str, str]], where: str) -> Diagnostic:
    """Say that rules stay out of the prompt, and why: `reasons` holds names with the reason of each."""
    names = "; ".join(f"{one_line(name)} ({_short(why)})" for name, why in reasons)
    more = f"; and {count - len(reasons)} more" if count > len(reasons) else ""
    return Diagnostic("path-scoped-rules", "info", f"{count} of {of} rules stay out: {names}{more}", where)


def _short(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
