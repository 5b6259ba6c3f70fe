"""Whether a pointer's inputs are as they were: the one authority on freshness."""

import os
from collections.abc import Mapping

import msgspec

from halo.errors import HaloError
from halo.files.stamps import Stamp, is_racy
from halo.files.tree_recording import EXISTS, UNREADABLE, Input
from halo.records.artifacts import Pointer


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
    suspects: list[Input] = []
    linked = _Links(roots)
    for known in pointer.inputs:
        stamp = stamp_at(known.path, roots)
        sure = known.kind == "absent" if stamp is None else not is_racy(stamp, pointer.recorded_ns)
        if stamp != known.stamp or not sure or linked.on_the_way(known.path):
            suspects.append(known)
    return _look_closer(pointer, suspects, roots, now_ns) if suspects else Verdict()


class _Links:
    """Tells whether a link stands on the way to an input: then its stat data may be those of elsewhere."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = roots
        self._known: dict[str, bool] = {}

    def on_the_way(self, path: str) -> bool:
        """Look at the folders between the root and `path`, each once."""
        root, _, relative = path.partition(":")
        folder, _, _ = relative.rpartition("/")
        return bool(folder) and self._linked(root, folder)

    def _linked(self, root: str, folder: str) -> bool:
        key = f"{root}:{folder}"
        if key not in self._known:
            above, _, _ = folder.rpartition("/")
            self._known[key] = (bool(above) and self._linked(root, above)) or os.path.islink(
                os.path.join(self._roots[root], folder)
            )
        return self._known[key]


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
    except (OSError, KeyError):
        return None


def _look_closer(pointer: Pointer, suspects: list[Input], roots: Mapping[str, str], now_ns: int) -> Verdict:
    from halo.files.tree import DiskTree, observe
    from halo.workspace.parts import PROJECTIONS

    tree = DiskTree(roots)
    worth = False
    renewed = {(known.path, known.part): known for known in pointer.inputs}
    for known in suspects:
        if _another_size(known, roots):
            return Verdict(f"{known.path} changed")
        try:
            now = observe(tree, known, PROJECTIONS[known.part] if known.part else None)
        except (HaloError, KeyError):
            return Verdict(f"{known.path} changed")
        if (now.kind, now.digest) != (known.kind, known.digest):
            return Verdict(_describe(known, now))
        renewed[known.path, known.part] = now
        # Worth recording when the next check can then do without the content.
        worth |= now.stamp is not None and not is_racy(now.stamp, now_ns)
    return Verdict(inputs=tuple(renewed.values())) if worth else Verdict()


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
