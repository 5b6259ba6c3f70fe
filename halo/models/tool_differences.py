"""Which tools a recorded request and today's have not in common, and whether another access is why. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from halo.records.targets import Access, permits

Tools = Sequence[Mapping[str, Any]]

_LEVELS: tuple[Access, ...] = ("readonly", "workspace", "full")


class ToolDifference(NamedTuple):
    """What differs, and whether tools are missing that today's access does not permit."""

    told: str
    refused: bool


def tool_difference(recorded: Tools, now: Tools, access: Access) -> ToolDifference | None:
    """Say which tools only one side has; None where both have the same ones. `access` is today's.

    A recording does not say which access it was made with, only that its tools were permitted.
    """
    before, after = _needs(recorded), _needs(now)
    missing = [name for name in before if name not in after]
    further = [name for name in after if name not in before]
    if not missing and not further:
        return None
    parts = [_listed(missing, "missing")] * bool(missing) + [_listed(further, "new")] * bool(further)
    told, least = f"recorded with other tools: {'; '.join(parts)}", _most(before.values())
    refused = not permits(access, _most(before[name] for name in missing))
    if refused:
        told += f"; the recording was made with {least} access or more, here it is {access}"
    elif not permits(least, _most(after[name] for name in further)):
        told += f"; the recording may have been made with less access, here it is {access}"
    return ToolDifference(told, refused)


def _needs(tools: Tools) -> dict[str, Access]:
    """Return the access that each tool needs; a recording may have been changed by hand."""
    return {
        str(tool.get("name", "")): next((one for one in _LEVELS if one == tool.get("access")), "readonly")
        for tool in tools
    }


def _most(levels: Iterable[Access]) -> Access:
    return max(levels, key=_LEVELS.index, default="readonly")


def _listed(names: list[str], what: str) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {what} here"
