"""Walking a path below a directory without ever leaving it (the mechanism of `roots`).

Every component is opened relative to the descriptor of the one before it and never through a symlink; links
are read and walked here. So there is no moment between a check and its use, as `realpath` leaves one.
Windows has neither `dir_fd` nor `O_NOFOLLOW`; there a realpath check stands in, which a hostile process on
the same machine could race.
"""

import errno
import os
import stat as st_modes
from collections.abc import Callable
from typing import TypeVar

from halo.errors import TreeError

MAX_DEPTH = 500  # folders below a root: each of them is open during a walk

MAX_LINKS = 40  # symlinks in one walk, the limit of Linux's own path lookup

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
HAS_DIR_FD = bool(NOFOLLOW) and os.open in os.supports_dir_fd

# With O_PATH a directory needs only search permission to be walked through, as in the kernel.
_WALK = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)

# What opening a symlink with O_NOFOLLOW says: Linux and macOS, with O_DIRECTORY on Linux, the BSDs.
_MAYBE_LINK = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})

_T = TypeVar("_T")

# What is done at the end of a walk: (descriptor of the directory, name in it, real path below the root). It
# says "this is a symlink" by ELOOP, as open with O_NOFOLLOW does. Without `dir_fd` it gets None and a whole
# path for the name.
Last = Callable[[int | None, str, str], _T]

# What makes a folder that is missing on the way: the same three, and the real path that the walk is bound
# for.
Missing = Callable[[int | None, str, str, str], None]


class LeavesRootError(TreeError):
    """A path or a symlink leads out of its root, or round in circles."""


def walk(root: str, rel: str, last: Last[_T], *, follow: bool = True, missing: Missing | None = None) -> _T:
    """Walk from the directory `root` to `rel` and return what `last` does there.

    With `follow=False` a symlink at the very end is left to `last`, which must not say ELOOP then. `missing`
    may make folders that are not there. Raises OSError as the system does, LeavesRootError, and TreeError for
    a malformed path.
    """
    parts = parts_of(rel)
    if not HAS_DIR_FD:
        return _walk_realpath(root, rel, parts, last, follow=follow, missing=missing)
    position = _Position(root, rel, parts)
    try:
        while position.todo:
            name = position.todo.pop()
            if name == "..":
                position.up()
                continue
            try:
                if not position.todo:
                    return last(position.fds[-1], name, "/".join([*position.names, name]))
                position.down(name)
            except FileNotFoundError as error:
                if missing is None or not position.todo:
                    raise
                position.make(name, missing, error)
            except OSError as error:
                if error.errno not in _MAYBE_LINK:
                    raise
                position.splice(name, error)
        return last(position.fds[-1], ".", "/".join(position.names))
    finally:
        position.close()


class _Position:
    """Where a walk stands: open directories from the root down, their names, and the parts to come."""

    def __init__(self, root: str, rel: str, parts: list[str]) -> None:
        self.root = root
        self.rel = rel
        self.todo = parts[::-1]
        self.names: list[str] = []
        self.links = 0
        self.made = 0
        self.fds = [os.open(root, _WALK)]

    def down(self, name: str) -> None:
        if len(self.names) >= MAX_DEPTH:
            raise too_deep(self.rel)
        self.fds.append(os.open(name, _WALK | NOFOLLOW, dir_fd=self.fds[-1]))
        self.names.append(name)

    def up(self) -> None:
        # Each descriptor is a directory that was walked through, so its parent is the one below it on the
        # stack, even if somebody has moved it meanwhile.
        if not self.names:
            raise leaves(self.rel)
        self.names.pop()
        os.close(self.fds.pop())

    def make(self, name: str, missing: Missing, error: OSError) -> None:
        """Have the folder `name` made, and enter it with the next step, whatever it is by then."""
        # `missing/..` is nowhere, and what vanishes again and again is not made for ever.
        self.made += 1
        if ".." in self.todo or self.made > MAX_DEPTH:
            raise error
        folder = [*self.names, name]
        missing(self.fds[-1], name, "/".join(folder), "/".join([*folder, *self.todo[::-1]]))
        self.todo.append(name)

    def splice(self, name: str, error: OSError) -> None:
        """Put the target of the link `name` before the parts to come; raise `error` if it is no link."""
        self.links += 1
        if self.links > MAX_LINKS:
            raise _circles(self.rel) from error
        try:
            target = os.readlink(name, dir_fd=self.fds[-1])
        except OSError as unread:
            if unread.errno != errno.EINVAL:
                raise
            found = os.stat(name, dir_fd=self.fds[-1], follow_symlinks=False)
            swapped = st_modes.S_ISDIR(found.st_mode) or st_modes.S_ISLNK(found.st_mode)
            if error.errno == errno.ENOTDIR and not swapped:
                raise error from None  # a file where a directory was expected
            target = name  # a link when it was opened, none when it was read: somebody swaps them
        if target.startswith("/"):
            target = self._beneath(target)
            while self.names:
                self.up()
        self.todo += [part for part in target.split("/") if part not in ("", ".")][::-1]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)

    def _beneath(self, target: str) -> str:
        """Return an absolute link target relative to the root."""
        # The root may have been given through a symlink (`/tmp` on macOS): both spellings are the root.
        for root in (self.root, os.path.realpath(self.root)):
            prefix = root.rstrip("/") + "/"
            if (target + "/").startswith(prefix):
                return target[len(prefix) :]
        raise leaves(self.rel)


def _walk_realpath(
    root: str, rel: str, parts: list[str], last: Last[_T], *, follow: bool, missing: Missing | None
) -> _T:
    root = os.path.realpath(root)
    full = os.path.join(root, *parts)
    if follow:
        full = os.path.realpath(full)
    else:
        full = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    if full != root and not full.startswith(root.rstrip(os.sep) + os.sep):
        raise leaves(rel)
    where = "" if full == root else os.path.relpath(full, root).replace(os.sep, "/")
    above = os.path.dirname(full)
    try:
        if missing is not None and not os.path.isdir(above):
            missing(None, above, where.rpartition("/")[0], where)
        return last(None, full, where)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _circles(rel) from error
        raise


def parts_of(rel: str) -> list[str]:
    """Split a path; raise TreeError for spellings that mean different things on different systems."""
    # On Windows a colon is a drive (`C:x`) or a hidden stream of a file.
    if rel.startswith("/") or "\\" in rel or "\0" in rel or (os.name == "nt" and ":" in rel):
        raise TreeError(
            f"{rel!r} is not a relative path with '/' between its parts",
            hint="write it relative to the root, such as 'docs/a.md'",
        )
    return [part for part in rel.split("/") if part not in ("", ".")]


def too_deep(rel: str) -> TreeError:
    """Refuse a path with more folders than a walk opens."""
    return TreeError(f"lies more than {MAX_DEPTH} folders deep", file=rel, hint="move it further up")


def leaves(rel: str) -> LeavesRootError:
    """Refuse a path that leads out of its root."""
    return LeavesRootError(
        "leaves its root directory",
        file=rel,
        hint="use a path or a symlink that stays inside, or copy the file in",
    )


def _circles(rel: str) -> LeavesRootError:
    return LeavesRootError(
        f"passes through more than {MAX_LINKS} symlinks",
        file=rel,
        hint="a link probably leads back to itself; remove it",
    )
