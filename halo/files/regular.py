"""Reads a file that may have been put there by a stranger: no link, no device, no pipe, no flood."""

import errno
import os
import stat
from io import BufferedReader

_SAFE = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_regular(path: str, limit: int) -> bytes:
    """Return the bytes of the regular file at `path`.

    Raises OSError for anything else: absent, a link, a directory, a FIFO (which does not block), or more
    than `limit` bytes.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise OSError(errno.EFBIG, "larger than it can be", path)
        return file.read(size)  # a read of `limit` bytes takes that much memory first


def open_regular(path: str) -> BufferedReader:
    """Open the regular file at `path` for reading. Raises OSError as `read_regular` does."""
    descriptor = os.open(path, os.O_RDONLY | _SAFE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def refuse_links(folder: str, *names: str) -> None:
    """Raise OSError (ELOOP) when `folder`, or one of `names` below it, is a symlink; absent ones are fine.

    For folders that Halo writes to and deletes from: a link in a clone must not lead it elsewhere.
    """
    for path in (folder, *(os.path.join(folder, name) for name in names)):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "a link where Halo keeps its own files", path)
