"""Which files are kept from models: keys of settings, other conversations, what the settings hide."""

import re
import unicodedata

# Below every `.halo`, not only the root's: a workspace may hold others (an example, a submodule, a vendored
# project), a skill's folder too. `secrets` and `machine.key` are there where the home directory itself is the
# workspace.
_MASKED = frozenset({"settings.yaml", "sessions", "traces", "batch", "secrets", "machine.key"})
_MASKED_BELOW = frozenset({("evo", "runs")})

# What file systems that tell no case leave out when they compare names (HFS+, ext4 and f2fs with casefold):
# Unicode's default ignorable characters.
_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


# Paths below a root that settings hide, each as `name_parts` gives it; without parts: all of the root.
Hidden = tuple[tuple[str, ...], ...]


def masked(real: str, hidden: Hidden = ()) -> bool:
    """Tell whether a path is kept from models. `real` is `/`-separated, below a root, without symlinks.

    The caller resolves links first, so no other name of the same folder helps. A hard link cannot be told: it
    is as much the file's name as the first one, and finding the others would take a search of the whole
    file system. Who can make one in the workspace could copy the file as well; the tools make none.
    """
    parts = name_parts(real)
    return hides(hidden, real) or any(
        parts[at + 1] in _MASKED or parts[at + 1 : at + 3] in _MASKED_BELOW
        for at, part in enumerate(parts[:-1])
        if part == ".halo"
    )


def hides(hidden: Hidden, real: str) -> bool:
    """Tell whether settings hide a path, or a folder that it lies in."""
    if not hidden:
        return False
    parts = name_parts(real)
    return any(parts[: len(each)] == each for each in hidden)


def name_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a `/`-separated path in the one spelling in which they are compared."""
    return tuple(same_name(part) for part in path.split("/") if part)


def same_name(name: str) -> str:
    """Return one spelling for all that some file system takes for the same name.

    No case, no invisible characters, one form of each letter; no dots and blanks at the end (Windows).
    """
    if not name.isascii():
        name = "".join(c for c in _IGNORED.sub("", name) if unicodedata.category(c) != "Cf")
        name = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return name.lower().rstrip(". ") or name
