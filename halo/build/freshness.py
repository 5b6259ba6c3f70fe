"""Whether a pointer's inputs are as they were: the one authority on freshness."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from halo.errors import HaloError
from halo.files.stamps import RACY_NS, Stamp, is_racy
from halo.files.tree_recording import EXISTS, UNREADABLE, Input
from halo.records.artifacts import Pointer

if TYPE_CHECKING:
    from halo.files.tree import DiskTree


class Verdict(msgspec.Struct, frozen=True):
    """`reason` is empty when fresh. `inputs` are set when only stamps changed: worth recording anew."""

    reason: str = ""
    inputs: tuple[Input, ...] | None = None


def check_inputs(pointer: Pointer, roots: Mapping[str, str], now_ns: int) -> Verdict:
    """Compare every input with the disk: by stat where that can be trusted, else by content.

    `now_ns` is the wall clock before the check, `roots` maps root names to absolute folders. An input that
    was modified so shortly before it was recorded that a later write could carry the same stamp is compared
    by content, as git's index does.
    """
    trusted = pointer.recorded_ns - RACY_NS
    folders = _Folders(roots)
    suspects = [known for known in pointer.inputs if not _surely_unchanged(known, folders, trusted)]
    return _look_closer(pointer, suspects, roots, now_ns) if suspects else Verdict()


def _surely_unchanged(known: Input, folders: "_Folders", trusted: int) -> bool:
    """Say whether stat data alone tell that an input is as it was. This is asked of thousands: it is lean."""
    place, linked = folders.place_of(known.path)
    if linked or not place:
        return False
    stamp = known.stamp
    try:
        if stamp is None:
            return known.kind == "absent" and not _is_there(place)
        st = os.stat(place)
    except (OSError, ValueError):  # a name that has no bytes in this locale is a ValueError
        return False
    mtime, ctime = st.st_mtime_ns, st.st_ctime_ns
    return (
        mtime == stamp.mtime_ns
        and ctime == stamp.ctime_ns
        and st.st_ino == stamp.inode
        and st.st_size == stamp.size
        and mtime <= trusted
        and ctime <= trusted
    )


if os.access in os.supports_follow_symlinks:

    def _is_there(path: str) -> bool:
        """Say whether anything is there, a link to nowhere included; without the price of an exception."""
        return os.access(path, os.F_OK, follow_symlinks=False)

else:
    _is_there = os.path.lexists


class _Folders:
    """Turns tree paths into absolute ones, folder by folder.

    It tells whether a link stands on the way: then stat data may be those of elsewhere.
    """

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = roots
        self._known: dict[str, tuple[str, bool]] = {}

    def place_of(self, path: str) -> tuple[str, bool]:
        """Return the absolute path, and whether a link stands between it and its root; empty for no root."""
        folder, slash, name = path.rpartition("/")
        if not slash:
            root, _, name = path.partition(":")
            base = self._roots.get(root)
            return ("" if base is None else os.path.join(base, name) if name else base), False
        found = self._known.get(folder)
        if found is None:
            absolute, linked = self.place_of(folder)
            linked = linked or not absolute or (":" not in folder[-1:] and os.path.islink(absolute))
            found = self._known[folder] = (absolute + os.sep, linked)
        return found[0] + name, found[1]


def stamp_at(path: str, roots: Mapping[str, str]) -> Stamp | None:
    """Return the stamp of a tree path on disk, links followed; that of a link to nowhere is its own.

    None when nothing is there, or it is out of reach.
    """
    root, _, relative = path.partition(":")
    try:
        absolute = os.path.join(roots[root], relative) if relative else roots[root]
        try:
            return Stamp.of(os.stat(absolute))
        except FileNotFoundError:
            return Stamp.of(os.lstat(absolute))
    except (OSError, KeyError, ValueError):
        return None


def _look_closer(pointer: Pointer, suspects: list[Input], roots: Mapping[str, str], now_ns: int) -> Verdict:
    from halo.files.tree import DiskTree

    tree = DiskTree(roots)
    worth = False
    renewed = {(known.path, known.part): known for known in pointer.inputs}
    for known in suspects:
        if _another_size(known, roots):
            return Verdict(f"{known.path} changed")
        try:
            now = _observe(tree, known)
        except (HaloError, KeyError):
            return Verdict(f"{known.path} changed")
        if (now.kind, now.digest) != (known.kind, known.digest):
            return Verdict(_describe(known, now))
        renewed[known.path, known.part] = now
        # Worth recording when the next check can then do without the content.
        worth |= _settles(known, now, pointer.recorded_ns, now_ns)
    return Verdict(inputs=tuple(renewed.values())) if worth else Verdict()


def _settles(known: Input, now: Input, recorded_ns: int, now_ns: int) -> bool:
    """Say whether stat data speak for an input now, and did not before."""
    if now.stamp is None or is_racy(now.stamp, now_ns):
        return False
    return now.stamp != known.stamp or is_racy(known.stamp, recorded_ns)


def _observe(tree: "DiskTree", known: Input) -> Input:
    from halo.files.tree import observe
    from halo.workspace.parts import projection
    from halo.workspace.personas import HOOK, observe_persona

    if known.path.startswith(HOOK):
        return observe_persona(known)
    return observe(tree, known, projection(known.part) if known.part else None)


def _another_size(known: Input, roots: Mapping[str, str]) -> bool:
    """Tell a changed file by its size: it may be too large by now to be read."""
    whole = known.kind == "file" and known.stamp is not None and not known.part
    if not whole or known.digest in (EXISTS, UNREADABLE):
        return False
    stamp = stamp_at(known.path, roots)
    return stamp is not None and known.stamp is not None and stamp.size != known.stamp.size


def _describe(known: Input, now: Input) -> str:
    if known.kind == "absent":
        return f"{known.path} is new"
    if now.kind == "absent":
        return f"{known.path} is gone"
    return f"{known.path} changed"
