"""Names of agents and skills, and which folder serves one."""

import re
from typing import NamedTuple

from halo.errors import TreeError, UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import Scope
from halo.records.targets import RESERVED_AGENT_IDS

# A folder name on every file system, and never a path.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}\Z")

_ROOTS: tuple[tuple[str, Scope], ...] = (
    ("workspace:.halo", "workspace"),
    ("global:", "global"),
    ("builtin:", "builtin"),
)


def is_id(text: str) -> bool:
    """Tell whether `text` may name an agent or a skill: letters, digits, `_`, `-`; at most 100."""
    return _ID.match(text) is not None


def _usable(kind: str, name: str) -> bool:
    return is_id(name) and not (kind == "agents" and name in RESERVED_AGENT_IDS)


def _path(root: str, *parts: str) -> str:
    return root + ("" if root.endswith(":") else "/") + "/".join(parts)


def unusable_ids(tree: Tree) -> list[tuple[str, str]]:
    """List folders among agents and skills whose name cannot be used, as (parent folder, name)."""
    return [
        (folder, entry.name)
        for root, _ in _ROOTS
        for kind in ("agents", "skills")
        if tree.kind(folder := _path(root, kind)) == "dir"
        for entry in tree.list(folder)
        if entry.kind == "dir" and not _usable(kind, entry.name)
    ]


def list_ids(tree: Tree, kind: str) -> list[str]:
    """List what is defined below `<root>/<kind>/` in any root, sorted; `kind` is `agents` or `skills`."""
    names: set[str] = set()
    for root, _ in _ROOTS:
        folder = _path(root, kind)
        if tree.kind(folder) == "dir":
            names.update(e.name for e in tree.list(folder) if e.kind == "dir" and _usable(kind, e.name))
    return sorted(names)


def folders_of(kind: str, name: str) -> list[tuple[str, Scope]]:
    """Return where `name` may be defined, in order: workspace, global, builtin."""
    return [(_path(root, kind, name), scope) for root, scope in _ROOTS]


class Served(NamedTuple):
    """The folder that serves a name, its scope, and the folders of other scopes that it hides."""

    folder: str
    scope: Scope
    hides: tuple[str, ...]


def serving_folder(tree: Tree, kind: str, name: str) -> Served:
    """Find the folder that serves agent or skill `name`.

    Whole-folder override: the first of workspace, global, builtin that has it serves it entirely.
    Raises `UnknownNameError` with near misses.
    """
    if not is_id(name):
        raise UsageError(
            f"{name!r} is not a name for {'an agent' if kind == 'agents' else 'a skill'}",
            hint="letters, digits, _ and - only",
        )
    folders = folders_of(kind, name)
    for i, (folder, scope) in enumerate(folders):
        found = tree.kind(folder)
        if found == "other":
            raise TreeError(
                "a link that leads out of this root, or to nowhere, cannot serve",
                file=folder,
                hint="put the folder itself there",
            )
        if found == "dir":
            others = (other for other, _ in folders[i + 1 :])
            return Served(folder, scope, tuple(path for path in others if tree.kind(path) == "dir"))
    raise UnknownNameError.of(kind.removesuffix("s"), name, list_ids(tree, kind))
