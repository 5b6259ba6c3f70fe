"""Finds the `.halo` and `.git` of what lies inside a workspace: examples, submodules, vendored projects."""

from collections import deque

from halo.tools.sandbox.paths import entries_of

MOST_ENTRIES = 20_000  # looked at, the shallowest first; what lies beyond is not guarded
MOST_FOUND = 64  # each is a mount, and so are the folders above it

_GUARDED = frozenset({".halo", ".git"})
_SKIPPED = frozenset({"node_modules", "__pycache__"})  # large, and nobody works in them


def find_nested(root: str, *, own: bool = False) -> list[str]:
    """Return them, the shallowest first; those of the root itself only with `own`. Links are not followed."""
    found: list[str] = []
    queue = deque([root])
    left = MOST_ENTRIES
    while queue and left > 0 and len(found) < MOST_FOUND:
        folder = queue.popleft()
        for entry in entries_of(folder):
            left -= 1
            if left <= 0 or len(found) >= MOST_FOUND:
                break
            guarded = entry.name in _GUARDED
            if guarded and (own or folder != root) and not entry.is_symlink():
                found.append(entry.path)
            elif not guarded and entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                queue.append(entry.path)
    return found
