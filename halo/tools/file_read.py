"""`file_read`: a text file, or a part of it, with line numbers."""

from collections.abc import Mapping
from typing import Any

from halo.tools.base import Surroundings, ToolFailure
from halo.tools.paths import locate, read_bytes

_LINES = 2000
_WHOLE = 2 * 1024 * 1024  # bytes that are read without a range
_LARGEST = 64 * 1024 * 1024  # bytes that are read at all


def file_read(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Return the lines, numbered from 1, and say how to go on when there are more."""
    place = locate(arguments["path"], around)
    data = read_bytes(place, _LARGEST + 1)
    if len(data) > _LARGEST:
        raise ToolFailure(f"{place.shown} is larger than {_LARGEST >> 20} MiB; search it with grep")
    if len(data) > _WHOLE and not {"offset", "limit"} & set(arguments):
        raise ToolFailure(
            f"{place.shown} has {len(data) / 1048576:.1f} MiB; give offset and limit, or use grep"
        )
    if b"\0" in data[:8192]:
        raise ToolFailure(f"{place.shown} is not a text file")
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()  # the newline that ends the last line starts no other
    offset = arguments.get("offset", 1)
    limit = arguments.get("limit", _LINES)
    part = lines[offset - 1 : offset - 1 + limit]
    if not part:
        return (
            f"({place.shown} has {len(lines)} lines; offset {offset} is beyond its end)"
            if lines
            else "(empty)"
        )
    last = offset - 1 + len(part)
    width = len(str(last))
    text = "\n".join(f"{number:>{width}}\t{line}" for number, line in enumerate(part, offset))
    if last < len(lines):
        text += f"\n... {len(lines) - last} more lines; go on with offset={last + 1}"
    return text
