"""`file_edit`: one exact piece of text in the place of another."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from halo.tools.base import Surroundings, ToolFailure
from halo.tools.paths import Place, locate, read_bytes
from halo.tools.writing import check_writable, guard, text_bytes, write_file

_LARGEST = 16 * 1024 * 1024  # bytes of a file
_NAMED = 8  # lines that a result names

_BARE_NEWLINE = re.compile(rb"(?<!\r)\n")
_NUMBERED = re.compile(r"\s*\d+\t")


def file_edit(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Replace `old_string`, which must occur once unless `replace_all` is set, with `new_string`.

    Both are literal. Bytes are compared, so whatever else is in the file stays as it is.
    """
    place = locate(arguments["path"], around)
    check_writable(place, around)
    old, new = (text_bytes(arguments[name], name) for name in ("old_string", "new_string"))
    if not old:
        raise ToolFailure("old_string is empty; file_write makes files and replaces them whole")
    data = _read(place, around)
    if not new.isascii() and not _is_utf8(data):
        raise ToolFailure(f"{place.shown} is not UTF-8; only ASCII text can be put into it")
    edit = _fitted(data, _Edit(old, new))
    if edit.old == edit.new:
        raise ToolFailure("old_string and new_string are the same; nothing would change")
    everywhere = arguments.get("replace_all", False)
    found = list(islice(_lines_of(data, edit.old, len(edit.old) if everywhere else 1), _NAMED + 1))
    if not found:
        raise ToolFailure(_not_found(place, arguments["old_string"]))
    count = data.count(edit.old)
    if not everywhere and len(found) > 1:
        raise ToolFailure(
            f"old_string occurs {max(count, 2)} times in {place.shown} ({_named(found)}); give more of the "
            "text around it, or set replace_all"
        )
    write_file(place, data.replace(edit.old, edit.new), around)
    times = "1 place" if count == 1 else f"{count:,} places"
    return f"edited {place.shown}: {times} ({_named(found)})"


class _Edit(NamedTuple):
    old: bytes
    new: bytes


def _read(place: Place, around: Surroundings) -> bytes:
    data = read_bytes(place, _LARGEST + 1, guard(place, around))
    if len(data) > _LARGEST:
        raise ToolFailure(f"{place.shown} is larger than {_LARGEST >> 20} MiB, too large to edit")
    if b"\0" in data[:8192]:
        raise ToolFailure(f"{place.shown} is not a text file")
    return data


def _fitted(data: bytes, edit: _Edit) -> _Edit:
    """Give the texts the line ends of the file: models write LF alone where a file has CR LF.

    In a file with both, CR LF is tried where the text does not occur as it is.
    """
    if b"\r\n" not in data:
        return edit
    with_returns = _Edit(*(_BARE_NEWLINE.sub(b"\r\n", text) for text in edit))
    mixed = _BARE_NEWLINE.search(data) is not None
    return edit if mixed and edit.old in data else with_returns


def _lines_of(data: bytes, text: bytes, step: int) -> Iterator[int]:
    """Yield the line of each occurrence; with a `step` of 1 also of those that overlap."""
    line, counted, start = 1, 0, 0
    while (at := data.find(text, start)) >= 0:
        line += data.count(b"\n", counted, at)
        yield line
        counted, start = at, at + step


def _named(found: list[int]) -> str:
    """Name the first lines: `line 3`, `lines 3, 9, ...`."""
    numbers = list(dict.fromkeys(found[:_NAMED]))
    more = ", ..." if len(found) > _NAMED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}{more}"


def _not_found(place: Place, old: str) -> str:
    hint = "read the file again and copy the text exactly, blanks and all"
    if all(_NUMBERED.match(line) for line in old.splitlines()):
        hint = "leave out the line numbers and tabs that file_read puts before the lines"
    return f"old_string does not occur in {place.shown}; {hint}"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
