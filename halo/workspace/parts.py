"""Parts of files that inputs may be: who rests on a part does not notice edits of the rest."""

from halo.workspace.general import GENERAL, general_part
from halo.workspace.layers import FRONT_MATTER, front_matter

# How a part is cut out of a file, by its name in an input.
PROJECTIONS = {FRONT_MATTER: front_matter, GENERAL: general_part}
