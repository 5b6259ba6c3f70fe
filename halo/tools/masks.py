"""Which files are kept from models: keys that a user wrote into settings, and other conversations."""

import unicodedata
from itertools import pairwise

# Below every `.halo`, not only the root's: a workspace may hold others (an example, a submodule, a vendored
# project), a skill's folder too. `secrets` is there where the home directory itself is the workspace.
_MASKED = frozenset({"settings.yaml", "sessions", "secrets"})


def masked(real: str) -> bool:
    """Tell whether a path is kept from models. `real` is `/`-separated, below a root, without symlinks.

    The caller resolves links first, so no other name of the same folder helps. A hard link cannot be told: it
    is as much the file's name as the first one, and finding the others would take a search of the whole
    file system. Who can make one in the workspace could copy the file as well; the tools make none.
    """
    parts = [_same(part) for part in real.split("/")]
    return any(above == ".halo" and name in _MASKED for above, name in pairwise(parts))


def _same(name: str) -> str:
    """Return what a file system may take for the same name: no case, no invisible characters (HFS+)."""
    if name.isascii():
        return name.lower()
    kept = "".join(c for c in name if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", kept).casefold()
