"""Looks after a workspace as a whole: its targets, and the gate that makes a no-op build cheap."""

import msgspec

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gatekeeper import Gatekeeper
from halo.build.targets import default_targets
from halo.files.tree import RecordingTree
from halo.files.tree_recording import Input
from halo.records.diagnostics import Diagnostic
from halo.records.targets import Target


class Workspace(msgspec.Struct, frozen=True):
    """The targets of a workspace as they were found, and what was consulted to find them."""

    builder: Builder
    targets: list[Target]
    oddities: tuple[Diagnostic, ...]
    inputs: tuple[Input, ...]


def survey(builder: Builder) -> Workspace:
    """Find the default targets of a workspace."""
    tree = RecordingTree(builder.places.tree(), builder.now_ns)
    found = default_targets(tree)
    return Workspace(builder, found.targets, found.oddities, tree.inputs())


def write_gate(workspace: Workspace) -> bool:
    """Write the gate after a build, if everything is fresh and all of it can be told by stat data.

    Not where there is something to say each time.
    """
    if workspace.oddities:
        return False
    builder = workspace.builder
    keeper = Gatekeeper(builder.places, builder.now_ns())
    keeper.inputs(workspace.inputs)
    for target in workspace.targets:
        pointer = builder.pointers.read(target)
        if pointer is None:
            return False
        keeper.files(builder.pointers.path(target), *builder.store.files(pointer.artifact))
        status = builder.status(target)
        if status.artifact is None or status.pointer is None or status.pointer != pointer:
            return False  # stale, or its pointer has just been renewed: the next build will know more
        keeper.inputs(pointer.inputs)
    return keeper.write(gate.workspace_gate(builder.places.workspace), str(len(workspace.targets)))
