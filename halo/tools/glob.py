"""`glob`: files by a pattern for their paths."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from halo.errors import TreeError
from halo.files.roots import Found
from halo.tools.base import Page, Surroundings, ToolFailure, brief
from halo.tools.path_patterns import PathPattern, is_wild
from halo.tools.paths import Place, kind_of, locate, real_place
from halo.tools.walking import SKIPPED, Walk, unread_note

_MOST = 1000  # files
_SECONDS = 10.0


def glob(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """Return the paths of files that match, from the workspace root, in the order of their parts.

    A folder that is usually skipped is entered if it is where the search starts, or if the pattern names it.
    What is kept from models is not listed, by no name.
    """
    pattern = PathPattern(arguments["pattern"], SKIPPED)
    top = locate(arguments.get("path", "."), around)
    if kind_of(top) == "file":
        raise ToolFailure(f"{top.shown} is a file; path is the folder to start from")
    search = _Search(top, pattern)
    page, left_out, stopped = Page(), 0, list[str]()
    ends = time.monotonic() + _SECONDS
    for place in search.files():
        if time.monotonic() > ends:
            stopped = [f"the search was stopped after {_SECONDS:g} seconds; start further down, with path"]
            break
        # Once one is left out, so are all after it: the list has no gaps.
        if place is not None and (left_out or len(page.lines) == _MOST or not page.add(place.shown)):
            left_out += 1
    more = [f"... {left_out:,} more files; narrow the pattern"] if left_out else []
    none = [] if page.lines else [_nothing(arguments["pattern"], top)]
    return "\n".join([*none, *page.lines, *more, *stopped, *unread_note(search.unread)])


class _Search:
    """The files below `top` that a pattern names."""

    def __init__(self, top: Place, pattern: PathPattern) -> None:
        self._pattern = pattern
        self._below = len(_parts(real_place(top).relative))
        self._walk = Walk(top, SKIPPED, self._enters)

    @property
    def unread(self) -> int:
        """How many folders could not be listed."""
        return self._walk.unread

    def files(self) -> Iterator[Place | None]:
        """Yield what matches, and None for each entry that does not, so that time can be looked at."""
        for place, found in self._walk:
            parts = _parts(place.relative)[self._below :]
            wanted = found.kind == "file" and self._pattern.matches(parts[:-1], parts[-1])
            yield place if wanted and not _kept(place, found) else None

    def _enters(self, place: Place, _found: Found) -> bool:
        return self._pattern.enters(_parts(place.relative)[self._below :])


def _parts(relative: str) -> tuple[str, ...]:
    return tuple(relative.split("/")) if relative else ()


def _kept(place: Place, found: Found) -> bool:
    if place.is_masked:
        return True
    if not found.link:
        return False
    try:
        return place.masks(place.root.resolve(place.relative))
    except (OSError, TreeError):
        return True  # gone meanwhile, or turned elsewhere


def _nothing(pattern: str, top: Place) -> str:
    said = f"no file matches {brief(pattern)}"
    if is_wild(pattern):
        return said
    found = kind_of(top.below(pattern.strip("/")))
    return f"{said}; it is a folder: file_list shows what is in it" if found == "dir" else said
