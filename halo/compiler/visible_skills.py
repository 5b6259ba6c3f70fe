"""Which of the skills that an agent lists its model gets to see, and which its user may invoke."""

from halo.compiler.compilation import Compilation
from halo.errors import LayerError, TreeError, UnknownNameError, UsageError
from halo.records.artifacts import SkillCommand
from halo.records.targets import permits
from halo.workspace.ids import shelves
from halo.workspace.settings.disabling import is_disabled
from halo.workspace.skills.oddities import skipped
from halo.workspace.skills.reading import Skill, read_skill


def listed_skills(job: Compilation) -> tuple[Skill, ...]:
    """Read the skills that agent.yaml lists, in its order, each once.

    One that cannot be read is left out, and said. Raises `LayerError` at the line of an unknown one.
    """
    found: dict[str, Skill] = {}
    document = job.agent.document
    known = shelves(job.tree, "skills")
    for i, skill_id in enumerate(job.agent.config.skills):
        try:
            found.setdefault(skill_id, read_skill(job.tree, skill_id, known, hides=False))
        except (UnknownNameError, UsageError) as error:
            raise document.error(f"skills: {error.message}", "skills", i, hint=error.hint) from None
        except (LayerError, TreeError) as error:
            job.say(skipped(error, document.source, document.line("skills", i)))
    return tuple(found.values())


def visible_skills(job: Compilation, listed: tuple[Skill, ...]) -> tuple[Skill, ...]:
    """Return those that the model may activate: open to this target, and not for users alone."""
    return tuple(s for s in listed if s.model_invocable and not _closed(job, s))


def skill_commands(job: Compilation, listed: tuple[Skill, ...]) -> tuple[SkillCommand, ...]:
    """Say for each what `/<id>` in a user's message does."""
    return tuple(
        SkillCommand(
            s.id, s.scope, _closed(job, s) or ("" if s.user_invocable else "it is not for users to invoke")
        )
        for s in listed
    )


def _closed(job: Compilation, skill: Skill) -> str:
    """Say why nobody may use a skill in this target; empty for one that is open."""
    if is_disabled(job.general, "skills", skill.id, skill.scope):
        return "it is disabled here"
    if not permits(job.target.access, skill.requires_access):
        return f"it requires {skill.requires_access} access, and this is {job.target.access}"
    return ""
