"""Which folders have to be watched for a set of tree paths, and which tree paths an event there means."""

import os
import stat as stat_modes
from collections.abc import Iterable, Mapping

from halo.build.watch.consulted import folder_of


class Watched:
    """The folders on the way to every path that was consulted, by their real paths.

    A folder that two paths lead to is watched once, because a system tells of it under one name only; what a
    link in a root leads to is watched if it stays in that root. `roots` maps root names to absolute folders.
    """

    def __init__(self, roots: Mapping[str, str], paths: Iterable[str] = ()) -> None:
        self._roots = roots
        self._real: dict[str, str | None] = {}  # tree path of a folder; None: there is none
        self._links: set[str] = set()  # tree paths
        self._names: dict[str, set[str]] = {}  # real path of a root or of a link's target: tree paths
        self.folders: set[str] = set()
        for path in paths:
            self.add(path)

    @property
    def tops(self) -> set[str]:
        """Folders below which all the others lie, for systems that watch a whole tree at no cost."""
        tops: set[str] = set()
        for folder in sorted(self.folders):
            if not any(_is_below(folder, top) for top in tops):
                tops.add(folder)
        return tops

    def add(self, path: str) -> None:
        """Watch what leads to `path`, and what it is if that is a folder."""
        above = folder_of(path)
        if above is None or self._folder(above) is not None:
            self._folder(path)

    def outdated(self, path: str) -> bool:
        """Tell whether `path`, which came or went, was or is a folder or a link that has to be watched."""
        if path in self._links or self._real.get(path) is not None:
            return True
        if path not in self._real:
            return False
        mode = _mode(self._place(path))
        return mode is not None and (stat_modes.S_ISDIR(mode) or stat_modes.S_ISLNK(mode))

    def tree_paths(self, absolute: str) -> list[str]:
        """Return every tree path by which `absolute` can be known, which an event named."""
        found = []
        for real, names in self._names.items():
            if not _is_below(absolute, real):
                continue
            rest = absolute[len(real) :].replace(os.sep, "/").strip("/")
            for name in names:
                between = "/" if rest and not name.endswith(":") else ""
                found.append(f"{name}{between}{rest}")
        return found

    def _place(self, path: str) -> str:
        root, _, relative = path.partition(":")
        return os.path.join(self._roots[root], relative) if relative else self._roots[root]

    def _folder(self, path: str) -> str | None:
        """Return the real path of a tree path that is a folder, and watch it."""
        if path not in self._real:
            real = self._real[path] = self._find(path)
            if real is not None:
                self.folders.add(real)
        return self._real[path]

    def _find(self, path: str) -> str | None:
        root, _, relative = path.partition(":")
        if root not in self._roots:
            return None  # an installed hook: nothing in a folder
        if not relative:
            real = os.path.realpath(self._roots[root])
            self._names.setdefault(real, set()).add(path)
            return real if os.path.isdir(real) else None
        above = self._folder(folder_of(path) or "")
        if above is None:
            return None
        place = os.path.join(above, relative.rpartition("/")[2])
        mode = _mode(place)
        if mode is not None and stat_modes.S_ISLNK(mode):
            return self._follow(path, place)
        return place if mode is not None and stat_modes.S_ISDIR(mode) else None

    def _follow(self, path: str, place: str) -> str | None:
        self._links.add(path)
        target = os.path.realpath(place)
        if not _is_below(target, os.path.realpath(self._roots[path.partition(":")[0]])):
            return None
        self._names.setdefault(target, set()).add(path)
        if os.path.isdir(os.path.dirname(target)):
            self.folders.add(os.path.dirname(target))
        return target if os.path.isdir(target) else None


def _mode(place: str) -> int | None:
    try:
        return os.lstat(place).st_mode
    except (OSError, ValueError):
        return None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
