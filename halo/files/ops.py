"""Every operation by which Halo changes a disk, in one place, so that crashes can be tested.

While `RECORDER` holds a list, each operation that succeeded is appended to it. Tests replay every prefix of
such a list, with what was not synced dropped, and look at what a reader would find. The wrappers decide
nothing; they raise OSError as the system does.
"""

import errno
import os
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import Literal

import msgspec

OpName = Literal["create", "write", "fsync", "fsync_dir", "rename", "link", "mkdir", "unlink", "rmdir"]


class Op(msgspec.Struct, frozen=True):
    """One operation: on `path`, with the `data` that was written, or to the `target` name."""

    name: OpName
    path: str
    data: bytes = b""
    target: str = ""


RECORDER: ContextVar[list[Op] | None] = ContextVar("halo.files.ops", default=None)

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate newlines


def create(path: str, mode: int, dir_fd: int | None = None) -> int:
    """Make a new file and return its descriptor for writing. Raises FileExistsError, for symlinks too."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    fd = os.open(_name(path, dir_fd), flags, mode, dir_fd=dir_fd)
    _record("create", path)
    return fd


def write(fd: int, path: str, data: bytes | memoryview) -> int:
    """Write some of `data` and return how many bytes it was, as `os.write` does."""
    written = os.write(fd, data)
    _record("write", path, bytes(data[:written]))
    return written


def write_all(fd: int, path: str, data: bytes) -> None:
    """Write all of `data`, in several calls when the system takes it in parts."""
    written = write(fd, path, data)
    while written < len(data):
        written += write(fd, path, memoryview(data)[written:])


def fsync(fd: int, path: str) -> None:
    """Bring a file's bytes to the medium, through the drive's own cache where the system can."""
    if sys.platform == "darwin":
        _full_fsync(fd)
    else:
        os.fsync(fd)
    _record("fsync", path)


def fsync_dir(path: str) -> None:
    """Bring a directory's names to the medium. On Windows, which cannot be asked for that, do nothing."""
    if os.name == "nt":
        return
    fd = os.open(path or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems cannot do it for directories, which is no reason to refuse a log there.
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
    _record("fsync_dir", path)


def rename(path: str, target: str, dir_fd: int | None = None) -> None:
    """Give a file another name, in place of whatever file has it; with `dir_fd` both are in there."""
    os.replace(_name(path, dir_fd), _name(target, dir_fd), src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    _record("rename", path, target=target)


def rename_folder(path: str, target: str) -> None:
    """Give a directory another name. Raises OSError when that is taken (by anything but an empty one)."""
    os.rename(path, target)
    _record("rename", path, target=target)


def link(path: str, target: str) -> None:
    """Give a file a second name. Raises FileExistsError when that is taken, by a symlink too."""
    os.link(path, target)
    _record("link", path, target=target)


def mkdir(path: str, dir_fd: int | None = None) -> None:
    """Make a directory."""
    os.mkdir(_name(path, dir_fd), dir_fd=dir_fd)
    _record("mkdir", path)


def unlink(path: str, dir_fd: int | None = None) -> None:
    """Take a file's name away."""
    os.unlink(_name(path, dir_fd), dir_fd=dir_fd)
    _record("unlink", path)


def rmdir(path: str) -> None:
    """Remove an empty directory."""
    os.rmdir(path)
    _record("rmdir", path)


def make_dirs(path: str, *, sync: bool = False) -> None:
    """Make a directory and those above it that are missing; `sync` brings their names to the medium."""
    if not path or os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_dirs(above, sync=sync)
    # Somebody else may be quicker; a file in the way shows as the error of what comes next.
    with suppress(FileExistsError):
        mkdir(path)
    if sync:
        fsync_dir(above)


def _full_fsync(fd: int) -> None:
    # On macOS fsync stops at the drive's cache, which a power loss empties.
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        os.fsync(fd)  # network file systems do not know it


def _name(path: str, dir_fd: int | None) -> str:
    return path if dir_fd is None else os.path.basename(path)


def _record(name: OpName, path: str, data: bytes = b"", target: str = "") -> None:
    recorder = RECORDER.get()
    if recorder is not None:
        recorder.append(Op(name, path, data, target))
