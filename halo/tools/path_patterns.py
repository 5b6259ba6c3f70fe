"""Patterns for paths: `src/**/*.py`. Pure, and of bounded time: part by part, without going back.

    *       any characters of one name, none too
    ?       one character of a name
    [a-z]   one of these; [!a-z] one of all others; a `[` without `]` is a character
    **      as a whole part: any number of folders, none too; at the end: everything below
    {a,b}   either; may be nested, and may hold slashes

All other characters stand for themselves, dots at the beginning of a name as well. Case matters.
"""

import fnmatch
import re
from functools import lru_cache

from halo.tools.base import ToolFailure, brief
from halo.tools.globs import check_length, expand_braces

_WILD = re.compile(r"[*?\[]")
_ANY_FOLDERS = "**"


class PathPattern:
    """A pattern for paths relative to the folder where it begins, given as their parts.

    Folders named in `skipped` are passed where the pattern names them, not where it has a wildcard.
    """

    def __init__(self, text: str, skipped: frozenset[str] = frozenset()) -> None:
        check_length(text, "pattern")
        self._globs = [_parts(glob) for glob in expand_braces([text], "pattern")]
        self._skipped = skipped
        self._reached = lru_cache(maxsize=256)(self._reach)  # the files of a folder ask for the same one

    def matches(self, folder: tuple[str, ...], name: str) -> bool:
        """Tell whether the file `name` in `folder` matches."""
        return any(
            at == len(glob) - 1 and _fits(glob[at], name)
            for glob, places in zip(self._globs, self._reached(folder), strict=True)
            for at in _spread(glob, places)
        )

    def enters(self, folder: tuple[str, ...]) -> bool:
        """Tell whether something below `folder` may match."""
        reached = zip(self._globs, self._reached(folder), strict=True)
        return any(at < len(glob) for glob, places in reached for at in places)

    def _reach(self, folder: tuple[str, ...]) -> list[set[int]]:
        """Return for each glob which of its parts may come next, once `folder` is passed."""
        if not folder:
            return [{0} for _ in self._globs]
        name = folder[-1]
        return [
            {
                at if glob[at] == _ANY_FOLDERS else at + 1
                for at in _spread(glob, places)
                if (glob[at] == name if name in self._skipped else _fits(glob[at], name))
            }
            for glob, places in zip(self._globs, self._reached(folder[:-1]), strict=True)
        ]


def _spread(glob: tuple[str, ...], places: set[int]) -> set[int]:
    """Return the parts that may match the next name: a `**` may stand for no folder at all."""
    passed = {at + 1 for at in places if at < len(glob) and glob[at] == _ANY_FOLDERS}
    return {at for at in places | passed if at < len(glob)}


def _fits(part: str, name: str) -> bool:
    return part == _ANY_FOLDERS or fnmatch.fnmatchcase(name, part)


def _parts(glob: str) -> tuple[str, ...]:
    """Take a pattern without braces apart; each part is `**` or matches one name."""
    if glob.startswith("/"):
        raise ToolFailure(f"{brief(glob)} begins with a slash; a pattern is relative to path")
    if glob.endswith("/"):
        raise ToolFailure(f"{brief(glob)} names folders; glob finds files: write {brief(glob)}**")
    parts: list[str] = []
    for part in glob.split("/"):
        if part == "..":
            raise ToolFailure(f"{brief(glob)} leads upwards; name the folder to start from as path")
        if part in ("", ".") or (part == _ANY_FOLDERS and parts[-1:] == [_ANY_FOLDERS]):
            continue
        parts.append(part)
    if not parts:
        raise ToolFailure("the pattern is empty; *.py finds files in the folder, **/*.py everywhere below")
    return tuple(parts)


def is_wild(text: str) -> bool:
    """Tell whether a pattern holds anything but plain characters."""
    return _WILD.search(text) is not None or "{" in text
