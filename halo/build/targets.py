"""Which targets a workspace builds by default."""

from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.directories import find_directories
from halo.workspace.oddities import find_oddities
from halo.workspace.settings.disabling import list_enabled
from halo.workspace.settings.general import read_general
from halo.workspace.skills.oddities import unreadable_skills


class Survey(NamedTuple):
    """The targets of a workspace, and what was found that none of them can use."""

    targets: list[Target]
    oddities: tuple[Diagnostic, ...]


def default_targets(tree: Tree) -> Survey:
    """Find every agent as root and sub, every skill, every directory with rules; sorted by name.

    Raises `LayerError` for settings that cannot be read.
    """
    named = agents_and_skills(tree)
    directories = find_directories(tree)
    found = [*named.targets, *(ScopeTarget(directory) for directory in directories.with_rules)]
    oddities = (*find_oddities(tree, directories), *named.oddities)
    return Survey(sorted(found, key=lambda t: t.name), oddities)


def agents_and_skills(tree: Tree) -> Survey:
    """Find every agent, as root and sub, and every skill.

    What is disabled is left out, and so are skills that cannot be read, which is said.
    """
    general = read_general(tree)
    found: list[Target] = []
    for agent in list_enabled(tree, general, "agents"):
        found += [AgentTarget(agent), AgentTarget(agent, "sub")]
    skills = list_enabled(tree, general, "skills")
    skipped = unreadable_skills(tree, skills)
    found += [SkillTarget(skill) for skill in skills if skill not in skipped.ids]
    return Survey(found, skipped.remarks)
