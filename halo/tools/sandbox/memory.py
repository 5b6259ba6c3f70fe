"""A folder that is nowhere on the disk: for programs, dry runs and tests."""

import errno
import os
import threading
from collections.abc import Callable, Mapping

from halo.files.roots import Admit, Found, Kind
from halo.files.walk import MAX_DEPTH, LeavesRootError, leaves, parts_of, too_deep

_LONGEST = 255  # bytes of a name, as on disks

Key = tuple[str, ...]


class MemoryFiles:
    """Files and folders in memory, with the paths and errors of a `ConfinedRoot`, and without links.

    `files` maps paths to bytes; folders are those that the paths imply. Several threads may use it at once.
    """

    path = ""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._nodes: dict[Key, bytes | None] = {(): None}  # None is a folder
        self._lock = threading.Lock()
        for rel, data in (files or {}).items():
            self.write(rel, data)

    @property
    def files(self) -> dict[str, bytes]:
        """Every file by its path, sorted."""
        with self._lock:
            return {"/".join(k): data for k, data in sorted(self._nodes.items()) if data is not None}

    def resolve(self, rel: str) -> str:
        """Return the path without `.` and `..`; "" is the folder itself."""
        with self._lock:
            return "/".join(self._existing(rel))

    def destination(self, rel: str) -> str:
        """Return the path where a file written as `rel` would stand, there or not yet."""
        bound: list[Key] = []

        def missing(folder: Key, rest: list[str]) -> None:
            if _too_long(folder[-1]):
                raise _error(errno.ENAMETOOLONG)
            bound.append((*folder, *rest))
            raise _error(errno.ENOENT)

        with self._lock:
            try:
                key = self._walk(rel, missing)
            except FileNotFoundError:
                if not bound:
                    raise
                return "/".join(bound[0])
            if key and _too_long(key[-1]):
                raise _error(errno.ENAMETOOLONG)
            return "/".join(key)

    def kind(self, rel: str) -> Kind:
        """Say what `rel` is."""
        try:
            with self._lock:
                return "dir" if self._nodes[self._existing(rel)] is None else "file"
        except LeavesRootError:
            return "other"
        except OSError:
            return "absent"

    def entries(self, rel: str, admit: Admit | None = None) -> list[Found]:
        """List a folder."""
        with self._lock:
            folder = self._existing(rel)
            if self._nodes[folder] is not None:
                raise _error(errno.ENOTDIR)
            _ask(admit, folder)
            below = [(key, data) for key, data in self._nodes.items() if key and key[:-1] == folder]
            return [Found(key[-1], "dir" if data is None else "file", link=False) for key, data in below]

    def read(self, rel: str, limit: int, admit: Admit | None = None) -> bytes:
        """Return at most `limit` bytes of a file."""
        with self._lock:
            file = self._existing(rel)
            _ask(admit, file)
            data = self._nodes[file]
        if data is None:
            raise _error(errno.EISDIR)
        return data[:limit]

    def write(self, rel: str, data: bytes, admit: Admit | None = None) -> None:
        """Put `data` in the place of a whole file, or make it and the folders above it."""
        if any(_too_long(part) for part in parts_of(rel)):
            raise _error(errno.ENAMETOOLONG)  # before any folder is made

        def missing(folder: Key, rest: list[str]) -> None:
            _ask(admit, (*folder, *rest))
            self._nodes[folder] = None

        with self._lock:
            file = self._walk(rel, missing)
            if self._nodes.get(file, b"") is None:
                raise _error(errno.EISDIR)
            _ask(admit, file)
            self._nodes[file] = bytes(data)

    def _existing(self, rel: str) -> Key:
        key = self._walk(rel)
        if key not in self._nodes:
            raise _error(errno.ENAMETOOLONG if _too_long(key[-1]) else errno.ENOENT)
        return key

    def _walk(self, rel: str, missing: Callable[[Key, list[str]], None] | None = None) -> Key:
        """Go as `halo.files.walk` does, folder by folder; what is at the end need not exist."""
        folder: Key = ()
        todo = parts_of(rel)[::-1]
        while todo:
            part = todo.pop()
            if part == "..":
                if not folder:
                    raise leaves(rel)
                folder = folder[:-1]
                continue
            below = (*folder, part)
            if not todo:
                return below
            if len(folder) >= MAX_DEPTH:
                raise too_deep(rel)
            if below not in self._nodes:
                if missing is None or ".." in todo:
                    raise _error(errno.ENAMETOOLONG if _too_long(part) else errno.ENOENT)
                missing(below, todo[::-1])
            elif self._nodes[below] is not None:
                raise _error(errno.ENOTDIR)
            folder = below
        return folder


def _too_long(name: str) -> bool:
    return len(os.fsencode(name)) > _LONGEST


def _ask(admit: Admit | None, key: Key) -> None:
    if admit is not None:
        admit("/".join(key))


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
