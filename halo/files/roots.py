"""Directories that nothing opened through them can leave, symlinks and races included (see `walk`)."""

import errno
import os
import stat as st_modes
from collections.abc import Callable
from typing import Literal, NamedTuple

from halo.errors import TreeError
from halo.files.walk import NOFOLLOW, LeavesRootError, walk

Kind = Literal["file", "dir", "absent", "other"]

# Gets the real path of what was opened, before anything is read or written, and raises to refuse it. A look
# at `resolve` beforehand would leave a moment in which somebody can exchange a folder for a link.
Admit = Callable[[str], None]

# A FIFO or a device must not block the open; O_BINARY keeps Windows from translating newlines.
SAFE = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class Found(NamedTuple):
    """A name in a directory; `kind` looks through a symlink that stays in the root."""

    name: str
    kind: Kind
    link: bool


class ConfinedRoot:
    """A directory whose methods take `/`-separated paths and reach nothing outside it.

    All methods raise OSError as the system call does (FileNotFoundError for what is absent), and TreeError
    for a path that is malformed, leaves the root or is neither a regular file nor a directory.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def open(self, rel: str, flags: int = os.O_RDONLY, mode: int = 0o644, admit: Admit | None = None) -> int:
        """Open a regular file or a directory and return its descriptor, which the caller closes.

        `flags` and `mode` are those of `os.open`; with `O_CREAT` a file is made, never a directory.
        """

        def last(dir_fd: int | None, name: str, real: str) -> int:
            fd = os.open(name, flags | SAFE, mode, dir_fd=dir_fd)
            try:
                if admit is not None:
                    admit(real)
                _refuse_special(os.fstat(fd).st_mode, rel)
            except BaseException:
                os.close(fd)
                raise
            return fd

        try:
            return walk(self.path, rel, last)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket, or a FIFO that nobody reads
                raise special(rel) from error
            raise

    def read(self, rel: str, limit: int, admit: Admit | None = None) -> bytes:
        """Return at most `limit` bytes of a regular file."""
        fd = self.open(rel, admit=admit)
        try:
            if st_modes.S_ISDIR(os.fstat(fd).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with open(fd, "rb", closefd=False) as file:
                return file.read(limit)
        finally:
            os.close(fd)

    def write(self, rel: str, data: bytes, admit: Admit | None = None) -> None:
        """Put `data` in the place of a whole file, or make it and the folders above it (see `rewriting`)."""
        from halo.files.rewriting import rewrite

        rewrite(self.path, rel, data, admit)

    def destination(self, rel: str) -> str:
        """Return the path below the root where a file written as `rel` would stand, there or not yet."""
        from halo.files.rewriting import destination

        return destination(self.path, rel)

    def stat(self, rel: str) -> os.stat_result:
        """Return the stat data of what `rel` is in the end, symlinks within the root followed."""
        return walk(self.path, rel, lstat_unless_link)

    def resolve(self, rel: str) -> str:
        """Return the path below the root that `rel` really is, without symlinks; "" is the root."""

        def last(dir_fd: int | None, name: str, real: str) -> str:
            lstat_unless_link(dir_fd, name)
            return real

        return walk(self.path, rel, last)

    def kind(self, rel: str) -> Kind:
        """Say what `rel` is; a symlink that dangles or leaves the root is "other"."""
        try:
            mode = self.stat(rel).st_mode
        except LeavesRootError:
            return "other"
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return "other" if self._is_link(rel) else "absent"
        return _kind_of(mode)

    def entries(self, rel: str, admit: Admit | None = None) -> list[Found]:
        """List a directory in the order of the system; names that are not UTF-8 hold surrogates."""

        def last(dir_fd: int | None, name: str, real: str) -> tuple[list[tuple[str, Kind | None]], str]:
            return _scan(dir_fd, name, real, admit), real

        listed, where = walk(self.path, rel, last)
        return [
            Found(name, kind, link=False)
            if kind is not None
            else Found(name, self._kind_of_link(f"{where}/{name}" if where else name), link=True)
            for name, kind in listed
        ]

    def _kind_of_link(self, rel: str) -> Kind:
        try:
            return self.kind(rel)
        except (OSError, TreeError):
            return "other"  # leads to where we may not look: one bad link must not hide the listing

    def _is_link(self, rel: str) -> bool:
        def last(dir_fd: int | None, name: str, _real: str) -> os.stat_result:
            return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)

        try:
            return st_modes.S_ISLNK(walk(self.path, rel, last, follow=False).st_mode)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
            return False


def lstat_unless_link(dir_fd: int | None, name: str, _real: str = "") -> os.stat_result:
    """Return the stat data of a name in an open directory; a symlink is said by ELOOP, as `walk` wants it."""
    found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    if st_modes.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return found


def _scan(dir_fd: int | None, name: str, real: str, admit: Admit | None) -> list[tuple[str, Kind | None]]:
    """List a directory; the kind of a symlink is None."""
    if dir_fd is None:
        if admit is not None:
            admit(real)
        return _scan_open(name)
    fd = os.open(name, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NOFOLLOW, dir_fd=dir_fd)
    try:
        if admit is not None:
            admit(real)
        return _scan_open(fd)
    finally:
        os.close(fd)


def _scan_open(directory: int | str) -> list[tuple[str, Kind | None]]:
    found: list[tuple[str, Kind | None]] = []
    with os.scandir(directory) as scan:
        for entry in scan:
            kind: Kind | None = None
            if not entry.is_symlink():
                is_dir, is_file = entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)
                kind = "dir" if is_dir else "file" if is_file else "other"
            found.append((entry.name, kind))
    return found


def _kind_of(mode: int) -> Kind:
    return "file" if st_modes.S_ISREG(mode) else "dir" if st_modes.S_ISDIR(mode) else "other"


def _refuse_special(mode: int, rel: str) -> None:
    if not (st_modes.S_ISREG(mode) or st_modes.S_ISDIR(mode)):
        raise special(rel)


def special(rel: str) -> TreeError:
    """Refuse what is no file: reading or writing it would reach something else than the disk."""
    return TreeError(
        "is neither a regular file nor a directory (a FIFO, socket or device)",
        file=rel,
        hint="remove it, or put a regular file there",
    )
