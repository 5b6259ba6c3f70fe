"""A workspace as a whole: its targets, and whether the gate says that all of them are fresh."""

import msgspec

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gatekeeper import gate_roots
from halo.build.targets import default_targets
from halo.compiler.version import COMPILER
from halo.errors import UsageError
from halo.files.tree import RecordingTree
from halo.files.tree_recording import Input
from halo.records.artifacts import Artifact
from halo.records.diagnostics import SAID_EVERY_TIME, Diagnostic
from halo.records.targets import Target


class Workspace(msgspec.Struct, frozen=True):
    """The targets of a workspace as they were found, and what was consulted to find them.

    `recorded_ns` is the wall clock before that.
    """

    builder: Builder
    targets: list[Target]
    oddities: tuple[Diagnostic, ...]
    inputs: tuple[Input, ...]
    recorded_ns: int


def survey(builder: Builder) -> Workspace:
    """Find the default targets of a workspace.

    Raises `UsageError` where a bundle was unpacked: nothing is compiled there.
    """
    if builder.bundle is not None:
        raise UsageError(
            "this was unpacked from a bundle: there are no layers to compile",
            hint="build where the layers are, make a bundle, and unpack it here",
        )
    tree = RecordingTree(builder.places.tree(), builder.now_ns)
    found = default_targets(tree)
    return Workspace(builder, found.targets, found.oddities, tree.inputs(), tree.recorded_ns)


def standing_remarks(artifact: Artifact) -> list[Diagnostic]:
    """Return the remarks that every build repeats, whether it compiles the artifact or finds it fresh."""
    return [remark for remark in artifact.manifest.diagnostics if remark.code in SAID_EVERY_TIME]


def passes(builder: Builder) -> bool:
    """Tell whether the gate of the workspace passes: everything is fresh, and nothing is to be forgotten."""
    places = builder.places
    return gate.ask(gate.workspace_gate(places.workspace), gate_roots(places), COMPILER) is not None
