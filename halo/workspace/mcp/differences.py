"""What changed between two looks at a server's tools, for who decides whether to believe them."""

import difflib
import json
from collections.abc import Iterator
from typing import NamedTuple

from halo.workspace.mcp.lock import LockedServer, LockedTool


class ToolChange(NamedTuple):
    """A tool that is new, gone or another.

    `lines` say what a new one is, and are those of a diff where one changed; hidden characters are escaped.
    """

    name: str
    kind: str  # "added", "removed" or "changed"
    lines: tuple[str, ...] = ()


def tool_changes(before: LockedServer | None, after: LockedServer | None) -> tuple[ToolChange, ...]:
    """Compare the tools of a server, by name."""
    old = {tool.name: tool for tool in before.tools} if before is not None else {}
    new = {tool.name: tool for tool in after.tools} if after is not None else {}
    return tuple(_changes(old, new))


def _changes(old: dict[str, LockedTool], new: dict[str, LockedTool]) -> Iterator[ToolChange]:
    for name in sorted({*old, *new}):
        if name not in old:
            yield ToolChange(name, "added", tuple(_summary(new[name])))
        elif name not in new:
            yield ToolChange(name, "removed")
        elif old[name] != new[name]:
            lines = difflib.unified_diff(_text(old[name]), _text(new[name]), lineterm="", n=1)
            yield ToolChange(name, "changed", tuple(line for line in lines if line[:3] not in ("---", "+++")))


def _summary(tool: LockedTool) -> Iterator[str]:
    """Say what a tool is for, and what each argument is."""
    yield from _plain(tool.description)
    for name, schema in tool.input_schema.get("properties", {}).items():
        kind = schema.get("type", "any") if isinstance(schema, dict) else "any"
        yield f"{json.dumps(name)[1:-1]}: {json.dumps(kind).strip(chr(34))}"
        if isinstance(schema, dict) and isinstance(schema.get("description"), str):
            yield from (f"    {line}" for line in _plain(schema["description"]))


def _plain(text: str) -> list[str]:
    return [json.dumps(line)[1:-1] for line in text.splitlines()]


def _text(tool: LockedTool) -> list[str]:
    """Write a tool as lines, so that a small change is a few of them."""
    lines = _plain(tool.description)
    for what in (tool.input_schema, tool.annotations):
        if what:
            lines += json.dumps(what, indent=2, sort_keys=True).splitlines()
    return lines
