"""Whether a pointer's inputs are as they were: the one authority on freshness."""

import os
from collections.abc import Mapping

import msgspec

from halo.files.stamps import Stamp, is_racy
from halo.files.tree_recording import Input
from halo.records.artifacts import Pointer


class Verdict(msgspec.Struct, frozen=True):
    """`reason` is empty when fresh. `inputs` are set when only stamps changed: worth recording anew."""

    reason: str = ""
    inputs: tuple[Input, ...] | None = None


def check_inputs(pointer: Pointer, roots: Mapping[str, str]) -> Verdict:
    """Compare every input with the disk: by stat where that can be trusted, else by content.

    `roots` maps root names to absolute folders. An input that was modified so shortly before it was
    recorded that a later write could carry the same stamp is compared by content, as git's index does.
    """
    suspects: list[Input] = []
    for known in pointer.inputs:
        stamp = stamp_at(known.path, roots)
        sure = known.kind == "absent" if stamp is None else not is_racy(stamp, pointer.recorded_ns)
        if stamp != known.stamp or not sure:
            suspects.append(known)
    if not suspects:
        return Verdict()
    return _look_closer(pointer, suspects, roots)


def stamp_at(path: str, roots: Mapping[str, str]) -> Stamp | None:
    """Return the stamp of a tree path on disk; None when it is absent or out of reach."""
    root, _, relative = path.partition(":")
    try:
        return Stamp.of(os.stat(os.path.join(roots[root], relative) if relative else roots[root]))
    except (OSError, KeyError):
        return None


def _look_closer(pointer: Pointer, suspects: list[Input], roots: Mapping[str, str]) -> Verdict:
    from halo.files.tree import DiskTree, observe

    tree = DiskTree(roots)
    renewed = {known.path: known for known in pointer.inputs}
    for known in suspects:
        now = observe(tree, known)
        if (now.kind, now.digest) != (known.kind, known.digest):
            return Verdict(_describe(known, now))
        renewed[known.path] = now
    return Verdict(inputs=tuple(renewed.values()))


def _describe(known: Input, now: Input) -> str:
    if known.kind == "absent":
        return f"{known.path} is new"
    if now.kind == "absent":
        return f"{known.path} is gone"
    return f"{known.path} changed"
