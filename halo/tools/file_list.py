"""`file_list`: what is in a folder."""

from collections.abc import Iterator, Mapping
from typing import Any

from halo.tools.base import Surroundings
from halo.tools.paths import Place, list_folder, locate

_MOST = 500
_SKIPPED = frozenset({".git", ".halo", "node_modules"})  # in a recursive listing


def file_list(arguments: Mapping[str, Any], around: Surroundings) -> str:
    """List a folder; folders end in a slash. Recursive: everything below, at most 500 entries."""
    top = locate(arguments.get("path", "."), around)
    if not arguments.get("recursive"):
        names = [name + ("/" if kind == "dir" else "") for name, kind, _ in list_folder(top)]
        return "\n".join(names) or "(empty)"
    found: list[str] = []
    for name in _walk(top, ""):
        if len(found) == _MOST:
            found.append(f"... more than {_MOST} entries; list a folder further down")
            break
        found.append(name)
    return "\n".join(found) or "(empty)"


def _walk(folder: Place, prefix: str) -> Iterator[str]:
    for name, kind, link in list_folder(folder):
        if kind == "dir":
            yield f"{prefix}{name}/"
            if name not in _SKIPPED and not link:
                yield from _walk(folder.below(name), f"{prefix}{name}/")
        else:
            yield prefix + name
