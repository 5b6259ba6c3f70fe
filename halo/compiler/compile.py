"""The one entry: `compile_target`."""

from halo.compiler.agent import compile_agent
from halo.compiler.assemble import Compiled
from halo.compiler.bodies import compile_scope, compile_skill
from halo.files.tree import Tree
from halo.records.targets import AgentTarget, SkillTarget, Target


def compile_target(tree: Tree, target: Target) -> Compiled:
    """Compile `target` from the layers in `tree`.

    Raises a `HaloError` that names file and line; nothing is written either way.
    """
    if isinstance(target, AgentTarget):
        return compile_agent(tree, target)
    if isinstance(target, SkillTarget):
        return compile_skill(tree, target)
    return compile_scope(tree, target)
