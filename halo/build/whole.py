"""Looks after a workspace as a whole: its targets, and the gate that makes a no-op build cheap."""

import os

import msgspec

from halo.build import gate
from halo.build.builder import Builder
from halo.build.targets import default_targets
from halo.compiler.version import COMPILER
from halo.files.stamps import Stamp, is_racy
from halo.files.stamps import stamp as stamp_of_file
from halo.files.tree import RecordingTree
from halo.files.tree_recording import Input
from halo.records.targets import Target

_PlainStamp = tuple[int, int, int, int]


class Workspace(msgspec.Struct, frozen=True):
    """The targets of a workspace as they were found, and what was consulted to find them."""

    builder: Builder
    targets: list[Target]
    inputs: tuple[Input, ...]
    recorded_ns: int


def survey(builder: Builder) -> Workspace:
    """Find the default targets of a workspace."""
    tree = RecordingTree(builder.places.tree(), builder.now_ns)
    targets = default_targets(tree)
    return Workspace(builder, targets, tree.inputs(), tree.recorded_ns)


def write_gate(workspace: Workspace) -> bool:
    """Write the gate after a build, if everything is fresh and all of it can be told by stat data.

    Returns whether it was written. Stamps are those that were recorded before the inputs were read, so
    a change in the meantime is noticed by the next build.
    """
    builder = workspace.builder
    stamps: dict[str, _PlainStamp | None] = {}
    recorded_ns = builder.now_ns()
    if not all(_note(known, workspace.recorded_ns, builder, stamps) for known in workspace.inputs):
        return False
    for target in workspace.targets:
        own = [builder.pointers.path(target)]
        before = [stamp_of_file(path) for path in own]
        status = builder.status(target)
        if status.artifact is None or status.pointer is None:
            return False
        own += builder.store.files(status.artifact.id)
        before += [stamp_of_file(path) for path in own[1:]]
        recorded = status.pointer.recorded_ns
        if not all(_note(known, recorded, builder, stamps) for known in status.pointer.inputs):
            return False
        for path, stamp in zip(own, before, strict=True):
            if stamp is None:
                return False
            stamps[path] = _plain(stamp)
    data = gate.render(
        stamps,
        home=builder.places.home,
        templates=builder.places.templates,
        compiler=COMPILER,
        recorded_ns=recorded_ns,
        targets=len(workspace.targets),
    )
    if data is None:
        return False
    from halo.files.atomic import replace_file

    replace_file(gate.gate_path(builder.places.workspace), data)
    return True


def _note(known: Input, recorded_ns: int, builder: Builder, stamps: dict[str, _PlainStamp | None]) -> bool:
    """Add an input to the gate; False when stat data cannot speak for it."""
    root, _, relative = known.path.partition(":")
    folder = builder.places.roots[root]
    path = os.path.join(folder, relative) if relative else folder
    if known.stamp is None and known.kind != "absent":
        return False
    if known.stamp is not None and is_racy(known.stamp, recorded_ns):
        return False
    stamps[path] = _plain(known.stamp) if known.stamp is not None else None
    return True


def _plain(stamp: Stamp) -> _PlainStamp:
    return (stamp.mtime_ns, stamp.ctime_ns, stamp.size, stamp.inode)
