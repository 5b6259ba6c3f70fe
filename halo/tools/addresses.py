"""What a model may write for a path, as pure text: nothing here looks at the disk.

`windows` is a parameter so that the rules of both systems are tested on each.
"""

import ntpath
import posixpath
from typing import NamedTuple

from halo.tools.base import ToolFailure, brief, encodable

_LONGEST = 4096  # characters, PATH_MAX of Linux: more cannot name a file, and need not be walked to find out


class Address(NamedTuple):
    """A path as parts joined by `/`, without `.` and `..`.

    `skill` is the skill whose folder it is relative to, None for the workspace. `absolute`: `path` starts at
    the root of the file system (with a drive on Windows) instead, and may or may not lie in the workspace.
    """

    skill: str | None
    path: str
    absolute: bool = False


def parse(path: str, *, windows: bool) -> Address:
    """Take apart what the model wrote; raise `ToolFailure` for what no path of a workspace looks like."""
    if len(path) > _LONGEST:
        raise ToolFailure(f"a path of {len(path)} characters is too long; {_LONGEST} are possible")
    if "\0" in path:
        raise ToolFailure("a path holds no NUL character; leave it out")
    if encodable(path) != path:
        raise ToolFailure("a path is Unicode text; this one holds a lone surrogate, which no text has")
    if windows:
        path = path.replace("\\", "/")
    elif "\\" in path:
        raise ToolFailure(
            f"{brief(path)} holds a backslash; write paths with '/', relative to the workspace root"
        )
    if path.startswith("skill:"):
        skill, _, rest = path.removeprefix("skill:").partition("/")
        return Address(skill, _normal(rest.strip("/"), path))
    drive, tail = ntpath.splitdrive(path) if windows else ("", path)
    if drive and not tail.startswith("/"):
        raise ToolFailure(f"{brief(path)} is relative to a drive; write it relative to the workspace root")
    if windows and ":" in tail:
        raise ToolFailure(f"{brief(path)} holds a colon, which names no file on Windows; leave it out")
    if tail.startswith("/"):
        return Address(None, drive + posixpath.normpath("/" + tail.strip("/")), absolute=True)
    return Address(None, _normal(path, path))


def rest_below(path: str, folder: str, *, windows: bool) -> str | None:
    """Return the absolute `path` relative to the absolute `folder`, "" for itself, None if it lies elsewhere.

    Windows tells no case.
    """
    if windows:
        folder = folder.replace("\\", "/")
    parts, above = (list(filter(None, p.split("/"))) for p in (path, folder))
    start = parts[: len(above)]
    if windows:
        start, above = [p.casefold() for p in start], [p.casefold() for p in above]
    return "/".join(parts[len(above) :]) if start == above else None


def _normal(path: str, written: str) -> str:
    normal = posixpath.normpath(path) if path else ""
    if normal == ".." or normal.startswith("../"):
        raise ToolFailure(f"{brief(written)} leads out of its root folder; nothing outside can be reached")
    return "" if normal == "." else normal
