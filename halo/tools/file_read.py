"""`file_read`: a text file, or a part of it, with line numbers."""

import io
from collections.abc import Mapping
from itertools import islice
from typing import Any

from halo.tools.base import Page, Surroundings, ToolFailure
from halo.tools.paths import locate, read_bytes

_LINES = 2000
_WHOLE = 2 * 1024 * 1024  # bytes that are read without a range
_LARGEST = 64 * 1024 * 1024  # bytes that are read at all


def file_read(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Return the lines, numbered from 1, and say how to go on when there are more.

    Stops at a whole line before the longest result, so that the hint is never cut off; only a line that is
    longer than a result by itself is cut, and says so.
    """
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
    if not data:
        return "(empty)"
    total = data.count(b"\n") + (not data.endswith(b"\n"))  # the newline at the end starts no other line
    offset = arguments.get("offset", 1)
    if offset > total:
        return f"({place.shown} has {total} lines; offset {offset} is beyond its end)"
    last = min(offset - 1 + arguments.get("limit", _LINES), total)
    page = _page(data, offset, last)
    shown = offset - 1 + len(page.lines)
    if shown < total:
        page.lines.append(f"... {total - shown} more lines; go on with offset={shown + 1}")
    return "\n".join(page.lines)


def _page(data: bytes, first: int, last: int) -> Page:
    """Return the numbered lines from `first` to `last`, or as many as fit, but at least one."""
    page, width = Page(), len(str(last))
    # Line by line: splitting all of a large file of short lines takes many times its size in memory.
    for number, raw in enumerate(islice(io.BytesIO(data), first - 1, last), first):
        line = f"{number:>{width}}\t{raw.decode('utf-8', 'replace').removesuffix(chr(10))}"
        if page.add(line):
            continue
        if not page.lines:
            note = f"... [cut: line {number} has {len(line) - width - 1} characters]"
            page.lines.append(line[: page.room - len(note)] + note)
        break
    return page
