"""Rules about skills: the Agent Skills specification, to the letter."""

from collections.abc import Iterator

from halo.checks.literals import literals_in
from halo.checks.subject import Subject
from halo.compiler.tokens import estimate
from halo.errors import HaloError
from halo.records.commands import WORDS
from halo.records.diagnostics import Diagnostic
from halo.records.targets import SkillTarget
from halo.workspace.skills.reading import read_skill
from halo.workspace.skills.specification import check_skill


def specification(subject: Subject) -> Iterator[Diagnostic]:
    """H201 to H212: the skills of the workspace; those of others are not for its authors to mend."""
    for target in subject.survey.targets:
        if not isinstance(target, SkillTarget):
            continue
        try:
            skill = read_skill(subject.tree, target.id)
            if skill.scope == "workspace":
                yield from check_skill(subject.tree, skill, estimate)
        except HaloError:
            continue  # said as what it is


def hidden_by_command(subject: Subject) -> Iterator[Diagnostic]:
    """H213: a skill that users may invoke by a word that is Halo's own."""
    for target in subject.survey.targets:
        if not isinstance(target, SkillTarget) or target.id.lower() not in WORDS:
            continue
        try:
            skill = read_skill(subject.tree, target.id)
        except HaloError:
            continue  # said as what it is
        if skill.user_invocable:
            message = f"/{target.id.lower()} is a command of Halo: nobody can invoke this skill by its name"
            yield Diagnostic("skill-command", "warning", message, skill.source, skill.name_line)


def unresolved(subject: Subject) -> Iterator[Diagnostic]:
    """H102: a placeholder in the front matter of a skill, where nothing resolves it."""
    for target in subject.survey.targets:
        if not isinstance(target, SkillTarget):
            continue
        try:
            skill = read_skill(subject.tree, target.id)
        except HaloError:
            continue  # said as what it is
        if skill.scope != "builtin":
            yield from literals_in("name", skill.name, skill.source, skill.name_line)
            yield from literals_in("description", skill.description, skill.source, skill.description_line)
