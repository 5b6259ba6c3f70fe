"""Which targets a workspace builds by default."""

from halo.files.tree import Tree
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.agents import list_agents
from halo.workspace.directories import find_directories
from halo.workspace.skills import list_skills


def default_targets(tree: Tree) -> list[Target]:
    """Return every agent as root and sub, every skill, every directory with rules; sorted by name."""
    found: list[Target] = []
    for agent in list_agents(tree):
        found += [AgentTarget(agent), AgentTarget(agent, "sub")]
    found += [SkillTarget(skill) for skill in list_skills(tree)]
    found += [ScopeTarget(directory) for directory in find_directories(tree).with_rules]
    return sorted(found, key=lambda t: t.name)
