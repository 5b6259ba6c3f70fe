"""The policies of a turn, and where each of their rules stands."""

from collections.abc import Iterator

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.policies import PolicyRule
from halo.records.targets import AgentTarget
from halo.tools.policy import Policy
from halo.workspace.agents import read_agent
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import read_general_of
from halo.workspace.yamldoc import YamlDocument

_IN_SETTINGS = ("general", "tools", "policy")


def turn_policies(tree: Tree, artifact: Artifact) -> tuple[Policy, ...]:
    """Return what was compiled, and what the machine adds, whoever made the artifact.

    Where compiled rules stand is looked up in the layers as they are now; of rules that are not there in the
    same words (a bundle has no layers) it is not known.
    """
    known = dict(_written(tree, artifact)) if artifact.runtime.policies else {}
    compiled = (Policy(rules, known.get(rules, ())) for rules in artifact.runtime.policies)
    machine = read_general_of(tree, GLOBAL_SETTINGS).tools.policy
    if not machine:
        return tuple(compiled)
    document = read_settings(tree, GLOBAL_SETTINGS)
    return (*compiled, Policy(machine, _places(machine, document, *_IN_SETTINGS)))


def _written(tree: Tree, artifact: Artifact) -> Iterator[tuple[tuple[PolicyRule, ...], tuple[str, ...]]]:
    """Yield the rules of the workspace's settings and of the agent, with their places."""
    try:
        rules = read_general_of(tree, WORKSPACE_SETTINGS).tools.policy
        if rules:
            yield rules, _places(rules, read_settings(tree, WORKSPACE_SETTINGS), *_IN_SETTINGS)
        target = artifact.manifest.target
        if isinstance(target, AgentTarget):
            agent = read_agent(tree, target.agent)
            yield agent.config.policy, _places(agent.config.policy, agent.document, "policy")
    except HaloError:
        return  # changed since it was compiled: whoever compiles it anew says what is wrong


def _places(rules: tuple[PolicyRule, ...], document: YamlDocument, *path: str) -> tuple[str, ...]:
    source = document.source.removeprefix("workspace:")
    return tuple(f"{source}:{document.line(*path, number)}" for number in range(len(rules)))
