"""Writing a file below a root: whole or not at all, and in the place where the path leads at that moment.

The folder is opened step by step and stays open (see `walk`); a temporary is written in it and renamed there.
So no link that turns up meanwhile is followed, and one that has taken the name by then is replaced. The name
gets a new file: another hard link keeps the old text; access lists and extended attributes are not kept.
"""

import errno
import os
import stat as st_modes
from contextlib import suppress
from typing import NamedTuple

from halo.files import ops
from halo.files.atomic import temporary_beside
from halo.files.roots import SAFE, Admit, lstat_unless_link, special
from halo.files.walk import parts_of, walk

_LONGEST = 255  # bytes of a name, as common file systems have it


def rewrite(root: str, rel: str, data: bytes, admit: Admit | None = None) -> None:
    """Put `data` in the place of the file `rel` below `root`, or make it and the folders above it.

    A symlink below the root is followed; the file that it leads to is written. An existing file keeps its
    mode (without set-id bits) and, where the system allows it, its owner. One that may not be written is
    refused. After a power loss the name has the old bytes or the new ones. Raises OSError as the system does,
    TreeError for a path that leaves the root or is no regular file, and what `admit` raises.
    """
    if any(len(os.fsencode(part)) > _LONGEST for part in parts_of(rel)):
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))  # before any folder is made

    def missing(dir_fd: int | None, name: str, real: str, bound_for: str) -> None:
        if admit is not None:
            admit(bound_for)
        if dir_fd is None:
            ops.make_dirs(name)
            return
        with suppress(FileExistsError):  # made by somebody else; the walk goes on with what is there now
            ops.mkdir(_path(root, real), dir_fd)

    def last(dir_fd: int | None, name: str, real: str) -> None:
        old = _old_file(dir_fd, name, rel)
        if admit is not None:
            admit(real)
        if old is not None:
            os.close(os.open(name, os.O_WRONLY | SAFE, dir_fd=dir_fd))  # may it be written at all?
        _replace(dir_fd, name if dir_fd is None else _path(root, real), data, old)

    walk(root, rel, last, missing=missing)


def destination(root: str, rel: str) -> str:
    """Return the path below `root` where `rewrite` would put `rel`; folders are returned as such."""
    bound: list[str] = []

    def missing(_dir_fd: int | None, _name: str, _real: str, bound_for: str) -> None:
        bound.append(bound_for)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def last(dir_fd: int | None, name: str, real: str) -> str:
        with suppress(FileNotFoundError):
            lstat_unless_link(dir_fd, name)
        return real

    try:
        return walk(root, rel, last, missing=missing)
    except FileNotFoundError:
        if not bound:
            raise
        return bound[0]


class _Old(NamedTuple):
    mode: int
    owner: tuple[int, int]


def _old_file(dir_fd: int | None, name: str, rel: str) -> _Old | None:
    """Return what is kept of the file that is there; None if there is none."""
    try:
        found = lstat_unless_link(dir_fd, name)
    except FileNotFoundError:
        return None
    if st_modes.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not st_modes.S_ISREG(found.st_mode):
        raise special(rel)
    return _Old(found.st_mode & 0o777, (found.st_uid, found.st_gid))


def _replace(dir_fd: int | None, path: str, data: bytes, old: _Old | None) -> None:
    temp = temporary_beside(path)
    try:
        # What was private is private from the first moment.
        fd = ops.create(temp, 0o666 if old is None else 0o600, dir_fd)
        try:
            ops.write_all(fd, temp, data)
            if old is not None:
                _take_over(fd, old)
            ops.fsync(fd, temp)
        finally:
            os.close(fd)
        ops.rename(temp, path, dir_fd)
    except BaseException:
        with suppress(OSError):
            ops.unlink(temp, dir_fd)
        raise


def _take_over(fd: int, old: _Old) -> None:
    if not hasattr(os, "fchown"):  # Windows, where a file that may not be written was refused before
        return
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != old.owner:
        with suppress(OSError):  # only root may give files away
            os.fchown(fd, *old.owner)
    os.fchmod(fd, old.mode)


def _path(root: str, real: str) -> str:
    return os.path.join(root, *real.split("/"))
