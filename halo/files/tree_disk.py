"""The tree over directories on disk (imported through `tree`)."""

import errno
import os
import stat as st_modes
import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from halo.errors import StartError, TreeError
from halo.files.roots import ConfinedRoot, Kind
from halo.files.stamps import Stamp
from halo.files.tree_base import (
    DEFAULT_LIMIT,
    Entry,
    NotFound,
    Problem,
    absent,
    left_out,
    not_a_directory,
    not_a_file,
    split,
    too_large,
    unlistable,
)

_ATTEMPTS = 5  # readings of a file that changes meanwhile; an editor's save is over by then
_BLOCK = 1 << 20  # bytes a read

# What this Python takes the bytes of file names for.
_ENCODING = sys.getfilesystemencoding()

_T = TypeVar("_T")


class DiskTree:
    """Directories on disk as named roots, each of them confined. A root that is missing is absent."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = {name: ConfinedRoot(path) for name, path in roots.items()}
        self._problems: dict[tuple[str, str], Problem] = {}

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes as they were at one moment: it is read again when it changed meanwhile."""
        return self._do(path, lambda root, rel: _read_stable(root, rel, path, limit))

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries; names that cannot be used are left out and become `problems`."""
        try:
            found = self._do(path, lambda root, rel: root.entries(rel))
        except NotFound:
            if self.stamp(path) is None:
                raise
            raise not_a_directory(path) from None
        entries: list[Entry] = []
        for name, kind, link in found:
            if not name.isascii() and _ENCODING != "utf-8":
                raise _other_encoding(f"{name!a} in {path}")
            if reason := unlistable(name):
                self._problems[path, name] = left_out(path, name, reason)
            else:
                entries.append(Entry(name, kind, link))
        # Code points sort as their UTF-8 bytes do.
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        try:
            return self._do(path, lambda root, rel: root.kind(rel))
        except NotFound:
            return "absent"  # the whole root is missing

    def stamp(self, path: str) -> Stamp | None:
        """Return the stat data of `path`; None when it is absent, leaves its root or may not be seen."""
        try:
            return self._do(path, lambda root, rel: Stamp.of(root.stat(rel)))
        except TreeError:
            return None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far, each once, in order of path."""
        return tuple(self._problems[key] for key in sorted(self._problems))

    def _do(self, path: str, action: Callable[[ConfinedRoot, str], _T]) -> _T:
        """Run `action` on the root of `path`, with its errors in the terms of trees."""
        name, rel = split(path)
        root = self._roots.get(name)
        if root is None:
            raise absent(path)
        try:
            return action(root, rel)
        except OSError as error:
            raise _translated(error, path) from error
        except UnicodeEncodeError as error:
            raise _other_encoding(f"{path!a}") from error
        except TreeError as error:
            raise type(error)(error.message, file=path, hint=error.hint) from error


def _other_encoding(name: str) -> StartError:
    return StartError(
        f"this Python takes file names for {_ENCODING}, which {name} is not",
        hint="set PYTHONUTF8=1, or a UTF-8 locale: the same files must make the same prompts",
    )


def _translated(error: OSError, path: str) -> TreeError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return absent(path)
    return TreeError(
        f"cannot be read: {error.strerror}",
        file=path,
        hint="check the permissions of the file and of the directories above it",
    )


def _read_stable(root: ConfinedRoot, rel: str, path: str, limit: int) -> bytes:
    for _ in range(_ATTEMPTS):
        fd = root.open(rel)
        try:
            before = os.fstat(fd)
            if st_modes.S_ISDIR(before.st_mode):
                raise not_a_file(path)
            if before.st_size > limit:
                raise too_large(path, limit)
            data = _read_all(fd, before.st_size)
            # The size is compared as well: a writer that truncates and rewrites within one clock tick
            # of the file system leaves equal stamps around a short reading.
            if Stamp.of(os.fstat(fd)) == Stamp.of(before) and len(data) == before.st_size:
                return data
        finally:
            os.close(fd)
    raise TreeError(
        f"changed during each of {_ATTEMPTS} readings",
        file=path,
        hint="something writes to it all the time; stop that and try again",
    )


def _read_all(fd: int, size: int) -> bytes:
    """Read `size` bytes, fewer when the file ends before."""
    blocks: list[bytes] = []
    while size > 0 and (block := os.read(fd, min(size, _BLOCK))):
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)
