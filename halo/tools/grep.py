"""`grep`: lines that match a regular expression."""

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

from halo.tools.base import Surroundings, ToolFailure
from halo.tools.paths import Place, is_masked, list_folder, locate, read_bytes

_MATCHES = 50
_LARGEST = 8 * 1024 * 1024  # bytes of a file that is searched
_LINE = 500  # characters of a line that are shown
_SECONDS = 5.0  # for one file: a pattern may take exponential time
_SKIPPED = frozenset({".git", ".halo", "node_modules", ".next", "dist", "__pycache__", ".venv"})


def grep(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Return `path:line:text` for each match, files in order of their paths."""
    import regex  # unlike `re` it can stop a pattern that runs away

    try:
        pattern = regex.compile(arguments["pattern"])
    except regex.error as error:
        raise ToolFailure(f"not a regular expression: {error}") from error
    top = locate(arguments.get("path", "."), around)
    includes = _alternatives(arguments.get("include", ""))
    most = arguments.get("max_results", _MATCHES)
    found: list[str] = []
    for place in _files(top):
        if is_masked(place):
            continue
        if includes and not any(fnmatch.fnmatchcase(place.shown.rsplit("/", 1)[-1], i) for i in includes):
            continue
        data = read_bytes(place, _LARGEST)
        if b"\0" in data[:512]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            try:
                matches = pattern.search(line, timeout=_SECONDS)
            except TimeoutError:
                raise ToolFailure(
                    f"the pattern takes too long on {place.shown}:{number}; simplify it"
                ) from None
            if matches:
                if len(found) == most:
                    return "\n".join([*found, f"... more than {most} matches; narrow the search"])
                shown = line if len(line) <= _LINE else f"{line[:_LINE]}... [{len(line)} characters]"
                found.append(f"{place.shown}:{number}:{shown}")
    return "\n".join(found) or f"no match for {arguments['pattern']!r}"


def _files(place: Place) -> Iterator[Place]:
    """Yield the files at or below `place`; starting inside a skipped folder works."""
    try:
        entries = list_folder(place)
    except ToolFailure:
        if place.relative:  # a file, or nothing: reading it will tell
            yield place
            return
        raise
    for name, kind, link in entries:
        below = place.below(name)
        if kind == "dir" and name not in _SKIPPED and not link and not is_masked(below):
            yield from _files(below)
        elif kind == "file" and not link:
            yield below


def _alternatives(include: str) -> list[str]:
    """Expand `*.{md,txt}` and comma lists into plain globs, for the base name."""
    globs: list[str] = []
    depth, current = 0, ""
    for char in include:
        if char == "," and depth == 0:
            globs.append(current)
            current = ""
            continue
        depth += (char == "{") - (char == "}")
        current += char
    globs.append(current)
    return [expanded for g in globs if g.strip() for expanded in _braces(g.strip())]


def _braces(glob: str) -> list[str]:
    start, end = glob.find("{"), glob.find("}")
    if start < 0 or end < start:
        return [glob]
    return [
        rest
        for option in glob[start + 1 : end].split(",")
        for rest in _braces(glob[:start] + option + glob[end + 1 :])
    ]
