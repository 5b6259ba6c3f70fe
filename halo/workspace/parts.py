"""Parts of files that inputs may be: who rests on a part does not notice edits of the rest."""

from halo.files.tree_recording import Project
from halo.workspace.instructions.front import LENIENT_FRONT, lenient_front
from halo.workspace.mcp.lock import lock_part
from halo.workspace.models.catalogue import model_part
from halo.workspace.settings.general import GENERAL, general_part
from halo.workspace.settings.prompt_lines import PROMPT_LINES, prompt_lines
from halo.workspace.skills.oddities import READABLE, readable_part
from halo.workspace.skills.reading import FRONT_MATTER, front_matter

_PROJECTIONS = {
    FRONT_MATTER: front_matter,
    GENERAL: general_part,
    LENIENT_FRONT: lenient_front,
    PROMPT_LINES: prompt_lines,
    READABLE: readable_part,
}


def projection(part: str) -> Project:
    """Return how a part is cut out of a file, by its name in an input. Raises `KeyError` for others."""
    return model_part(part) or lock_part(part) or _PROJECTIONS[part]
