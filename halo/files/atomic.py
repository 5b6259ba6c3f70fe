"""Files and folders that appear whole or not at all.

Each is written under a temporary name in the directory where it will stand (`.NAME.PID-RANDOM.tmp`) and
named by one operation of the file system. What a killed process leaves behind is such a name and nothing
else. All functions raise OSError as the system does.
"""

import errno
import os
from collections.abc import Mapping
from contextlib import suppress

from halo.files import ops
from halo.files.tree_base import check_relative

# How file systems say that they have no hard links (FAT, some network and container mounts).
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV})

# What renaming a folder onto something says, by system and by what is there.
_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EACCES})


def replace_file(
    path: str, data: bytes, *, mode: int = 0o644, sync: bool = False, folders: bool = True
) -> None:
    """Put `data` at `path`, so that every reader sees the old bytes or the new ones.

    Missing directories are made, unless `folders` is False: a folder that somebody removes stays away. A
    symlink at `path` is replaced, not followed. `mode` is subject to the umask. With `sync` the change
    survives a power loss once this returns; without, a power loss may leave either, or an empty file.
    """
    temp = temporary_beside(path)
    try:
        _write_new(temp, data, mode, sync=sync, folders=folders)
        ops.rename(temp, path)
    except BaseException:
        _discard(temp)
        raise
    if sync:
        ops.fsync_dir(os.path.dirname(path))


def create_file(
    path: str, data: bytes, *, mode: int = 0o644, sync: bool = False, folders: bool = True
) -> bool:
    """Put `data` at `path` if nothing is there, and say whether that was so.

    A symlink counts as something, also when it dangles. Of several processes one gets True, and no reader
    sees a part (on file systems without hard links it may). The options are as in `replace_file`.
    """
    if os.path.lexists(path):
        return False
    temp = temporary_beside(path)
    try:
        _write_new(temp, data, mode, sync=sync, folders=folders)
        created = _link_new(temp, path, data, mode, sync=sync)
    finally:
        _discard(temp)
    if created and sync:
        ops.fsync_dir(os.path.dirname(path))
    return created


def publish_folder(path: str, files: Mapping[str, bytes]) -> bool:
    """Put a folder with `files` (names to bytes, `/` for subfolders) at `path` if nothing is there.

    Returns False when something is: folders are named by their content, so somebody else was quicker with
    the same bytes. Nothing is synced; what is published this way is verified by digest when it is loaded.
    Raises TreeError for a name with `..` or an absolute one.
    """
    for name in files:
        check_relative(name)
    if os.path.lexists(path):
        return False
    temp = temporary_beside(path)
    ops.make_dirs(os.path.dirname(path))
    made: list[str] = []  # directories, those above before those below
    try:
        made.append(temp)
        ops.mkdir(temp)
        for name in sorted(files):
            _make_between(temp, name, made)
            _write_new(os.path.join(temp, *name.split("/")), files[name], 0o644, sync=False)
        ops.rename_folder(temp, path)
    except BaseException as error:
        _discard_folder(temp, files, made)
        if isinstance(error, OSError) and error.errno in _TAKEN and os.path.lexists(path):
            return False  # taken between the look above and the rename
        raise
    return True


def temporary_beside(path: str) -> str:
    """Return the temporary name for a file that is to stand at `path`."""
    directory, name = os.path.split(path)
    # 40 characters are at most 160 bytes: the longest name that fits the system still gets a temporary.
    return os.path.join(directory, f".{name[:40]}.{os.getpid()}-{os.urandom(6).hex()}.tmp")


def _write_new(path: str, data: bytes, mode: int, *, sync: bool, folders: bool = True) -> None:
    """Write a file that was not there; with `folders` the directories above it are made."""
    try:
        fd = ops.create(path, mode)
    except FileNotFoundError:
        if not folders:
            raise
        ops.make_dirs(os.path.dirname(path), sync=sync)
        fd = ops.create(path, mode)
    try:
        ops.write_all(fd, path, data)
        if sync:
            ops.fsync(fd, path)
    finally:
        os.close(fd)


def _link_new(temp: str, path: str, data: bytes, mode: int, *, sync: bool) -> bool:
    """Name `temp` also `path` unless that is taken; write it there where there are no hard links."""
    try:
        ops.link(temp, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _write_in_place(path, data, mode, sync=sync)
    return True


def _write_in_place(path: str, data: bytes, mode: int, *, sync: bool) -> bool:
    try:
        _write_new(path, data, mode, sync=sync)
    except FileExistsError:
        return False
    except BaseException:
        _discard(path)
        raise
    return True


def _make_between(folder: str, name: str, made: list[str]) -> None:
    """Make the subfolders of `folder` that the file `name` needs, and note them in `made`."""
    parts = name.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        directory = os.path.join(folder, *parts[:depth])
        if directory not in made:
            made.append(directory)
            ops.mkdir(directory)


def _discard(path: str) -> None:
    """Remove a temporary file that may not exist."""
    with suppress(FileNotFoundError, NotADirectoryError):
        ops.unlink(path)


def _discard_folder(folder: str, files: Mapping[str, bytes], made: list[str]) -> None:
    """Remove a temporary folder of which any part may not exist."""
    for name in files:
        _discard(os.path.join(folder, *name.split("/")))
    for directory in reversed(made):
        with suppress(FileNotFoundError):
            ops.rmdir(directory)
