"""Whether a pointer's inputs are as they were: the one authority on freshness."""

import os
from collections.abc import Mapping

import msgspec

from halo.errors import HaloError
from halo.files.stamps import Stamp, is_racy
from halo.files.tree_recording import Input
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
    made_here = False
    for known in pointer.inputs:
        stamp = stamp_at(known.path, roots)
        made_here |= stamp is not None and stamp == known.stamp
        sure = known.kind == "absent" if stamp is None else not is_racy(stamp, pointer.recorded_ns)
        if stamp != known.stamp or not sure:
            suspects.append(known)
    verdict = _look_closer(pointer, suspects, roots, now_ns) if suspects else Verdict()
    if not verdict.reason and not made_here:
        # Inode and change time cannot be carried along: a pointer without a single true stamp came with
        # the folder, from wherever that was, and what it says is not taken on trust.
        return Verdict("its record was not made here")
    return verdict


def stamp_at(path: str, roots: Mapping[str, str]) -> Stamp | None:
    """Return the stamp of a tree path on disk; None when it is absent or out of reach."""
    root, _, relative = path.partition(":")
    try:
        return Stamp.of(os.stat(os.path.join(roots[root], relative) if relative else roots[root]))
    except (OSError, KeyError):
        return None


def _look_closer(pointer: Pointer, suspects: list[Input], roots: Mapping[str, str], now_ns: int) -> Verdict:
    from halo.files.tree import DiskTree, observe
    from halo.workspace.layers import FRONT_MATTER, front_matter

    projections = {FRONT_MATTER: front_matter}

    tree = DiskTree(roots)
    worth = False
    renewed = {(known.path, known.part): known for known in pointer.inputs}
    for known in suspects:
        try:
            now = observe(tree, known, projections[known.part] if known.part else None)
        except (HaloError, KeyError):
            return Verdict(f"{known.path} changed")
        if (now.kind, now.digest) != (known.kind, known.digest):
            return Verdict(_describe(known, now))
        renewed[known.path, known.part] = now
        # Worth recording when the next check can then do without the content.
        worth |= now.stamp is not None and not is_racy(now.stamp, now_ns)
    return Verdict(inputs=tuple(renewed.values())) if worth else Verdict()


def _describe(known: Input, now: Input) -> str:
    if known.kind == "absent":
        return f"{known.path} is new"
    if now.kind == "absent":
        return f"{known.path} is gone"
    return f"{known.path} changed"
