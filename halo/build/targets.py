"""Which targets a workspace builds by default."""

from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.agents import list_agents
from halo.workspace.directories import find_directories
from halo.workspace.oddities import find_oddities
from halo.workspace.skills import list_skills


class Survey(NamedTuple):
    """The targets of a workspace, and what was found that none of them can use."""

    targets: list[Target]
    oddities: tuple[Diagnostic, ...]


def default_targets(tree: Tree) -> Survey:
    """Find every agent as root and sub, every skill, every directory with rules; sorted by name."""
    found: list[Target] = []
    for agent in list_agents(tree):
        found += [AgentTarget(agent), AgentTarget(agent, "sub")]
    found += [SkillTarget(skill) for skill in list_skills(tree)]
    directories = find_directories(tree)
    found += [ScopeTarget(directory) for directory in directories.with_rules]
    oddities = find_oddities(tree, directories)
    return Survey(sorted(found, key=lambda t: t.name), oddities)
