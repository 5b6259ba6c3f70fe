"""`file_write`: a whole file."""

from collections.abc import Mapping
from typing import Any

from halo.tools.base import Surroundings
from halo.tools.paths import kind_of, locate
from halo.tools.writing import check_writable, text_bytes, write_file


def file_write(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Make a file or replace all of it; readers see the old text or the new one, never a part."""
    place = locate(arguments["path"], around)
    check_writable(place, around)
    data = text_bytes(arguments["content"], "content")
    was = kind_of(place)
    write_file(place, data, around)
    did = "made" if was == "absent" else "replaced"
    return f"{did} {place.shown}: {_count(lines(data), 'line')}, {_count(len(data), 'byte')}"


def lines(data: bytes) -> int:
    """Count lines; a newline at the end starts no other."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"
