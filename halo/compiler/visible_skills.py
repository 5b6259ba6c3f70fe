"""Which of the skills that an agent lists its model gets to see."""

from halo.compiler.compilation import Compilation
from halo.errors import UnknownNameError, UsageError
from halo.workspace.disabling import is_disabled
from halo.workspace.skills import Skill, read_skill


def visible_skills(job: Compilation) -> tuple[Skill, ...]:
    """Read the skills that agent.yaml lists, in its order, each once, without those that are switched off.

    Raises `LayerError` at the line of an unknown one.
    """
    found: dict[str, Skill] = {}
    document = job.agent.document
    for i, skill_id in enumerate(job.agent.config.skills):
        try:
            found.setdefault(skill_id, read_skill(job.tree, skill_id))
        except (UnknownNameError, UsageError) as error:
            raise document.error(f"skills: {error.message}", "skills", i, hint=error.hint) from None
    return tuple(s for s in found.values() if not is_disabled(job.general, "skills", s.id, s.scope))
