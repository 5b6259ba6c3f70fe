"""Compiles targets of a tree in memory: nothing is written, and one that fails does not stop the others."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.build.store import artifact_id
from halo.build.targets import Survey, default_targets
from halo.compiler.agent import compile_agent
from halo.compiler.assemble import Compiled
from halo.compiler.compile import compile_target
from halo.errors import HaloError
from halo.files.canonical import readable_json
from halo.files.tree import Input, RecordingTree, Tree
from halo.records.artifacts import Artifact
from halo.records.targets import AgentTarget, Target
from halo.records.tools import ToolSpec


class Outcome(NamedTuple):
    """What became of a target: `compiled`, or the `error`; either way what was consulted for it."""

    target: Target
    compiled: Compiled | None
    error: HaloError | None
    inputs: tuple[Input, ...]


def compile_in_memory(tree: Tree, targets: Iterable[Target]) -> Iterator[Outcome]:
    """Compile `targets` from `tree` one after the other, each when it is asked for."""
    for target in targets:
        recording = RecordingTree(tree, lambda: 0)  # no clock: nobody will trust the stamps
        compiled, error = None, None
        try:
            compiled = compile_target(recording, target)
        except HaloError as caught:
            error = caught
        yield Outcome(target, compiled, error, recording.inputs())


def artifact_in_memory(tree: Tree, target: Target, further: tuple[ToolSpec, ...] = ()) -> Artifact:
    """Compile an artifact that is not put on disk; `further` are tools that no layer names.

    Its id is the one that it would have on disk. Raises what the compiler raises.
    """
    if isinstance(target, AgentTarget):
        compiled = compile_agent(tree, target, further)
    else:
        compiled = compile_target(tree, target)
    identity = artifact_id(compiled.prompt.encode(), readable_json(compiled.manifest))
    return Artifact(identity, compiled.prompt, compiled.manifest)


def survey_tree(tree: Tree) -> Survey:
    """Find the default targets of a tree; none where it holds no workspace."""
    return default_targets(tree) if tree.kind("workspace:.halo") == "dir" else Survey([], ())
