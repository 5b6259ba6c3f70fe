"""Names of agents and skills, and which folder serves one."""

import re
from typing import NamedTuple

from halo.errors import TreeError, UnknownNameError, UsageError
from halo.files.tree import Entry, Kind, Tree
from halo.records.artifacts import Scope
from halo.records.targets import RESERVED_AGENT_IDS
from halo.workspace.settings.general import read_general

# A folder name on every file system, and never a path.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}\Z")


class Shelf(NamedTuple):
    """A folder that holds the folders of agents or skills.

    `foreign`: one that other programs use too, searched for skills when the settings say so. A folder in it
    that has no SKILL.md is none of ours, and a shelf that leads out of its root is passed over.
    """

    folder: str
    scope: Scope
    foreign: bool = False

    def path(self, name: str) -> str:
        """Return the folder of `name` on this shelf."""
        return self.folder + ("" if self.folder.endswith(":") else "/") + name


# `general.skills.search` names a folder below the workspace and, of the same name, below the user's home.
USER_SHELVES = {".agents/skills": "agents-skills:", ".claude/skills": "claude-skills:"}


def is_id(text: str) -> bool:
    """Tell whether `text` may name an agent or a skill: letters, digits, `_`, `-`; at most 100."""
    return _ID.match(text) is not None


def is_usable(kind: str, name: str) -> bool:
    """Tell whether a folder of this name is an agent or a skill; `kind` is `agents` or `skills`."""
    return is_id(name) and not (kind == "agents" and name in RESERVED_AGENT_IDS)


def shelves(tree: Tree, kind: str) -> tuple[Shelf, ...]:
    """Return the shelves of a kind, the first to serve first: project before user before templates.

    Raises `LayerError` for broken settings, which say what is searched.
    """
    search = read_general(tree).skills.search if kind == "skills" else ()
    return (
        Shelf(f"workspace:.halo/{kind}", "workspace"),
        *(Shelf(f"workspace:{folder}", "workspace", foreign=True) for folder in search),
        Shelf(f"global:{kind}", "global"),
        *(Shelf(USER_SHELVES[folder], "global", foreign=True) for folder in search),
        Shelf(f"builtin:{kind}", "builtin"),
    )


def kind_or_other(tree: Tree, path: str) -> Kind:
    """Say what `path` is; what may not even be looked at is "other"."""
    try:
        return tree.kind(path)
    except TreeError:
        return "other"


def entries_of(tree: Tree, shelf: Shelf) -> tuple[Entry, ...]:
    """List a shelf; empty where there is none. Raises `TreeError` for one of ours that may not be listed."""
    if kind_or_other(tree, shelf.folder) != "dir":
        return ()
    try:
        return tree.list(shelf.folder)
    except TreeError:
        if shelf.foreign:
            return ()  # said by `skill_oddities`
        raise


def skill_file(tree: Tree, folder: str) -> str | None:
    """Return the name of the file that makes `folder` a skill: SKILL.md, else the first in another case.

    None when there is none. The folder is only listed when there is no SKILL.md, so that its other files are
    nothing to who asks.
    """
    if kind_or_other(tree, f"{folder}/SKILL.md") in ("file", "other"):
        return "SKILL.md"
    try:
        entries = tree.list(folder)
    except TreeError:
        return None
    return next((e.name for e in entries if e.name.lower() == "skill.md" and e.kind == "file"), None)


def defines(tree: Tree, shelf: Shelf, name: str) -> bool:
    """Tell whether the folder of `name` on this shelf is an agent or a skill."""
    folder = shelf.path(name)
    return kind_or_other(tree, folder) == "dir" and (
        not shelf.foreign or skill_file(tree, folder) is not None
    )


def unusable_ids(tree: Tree) -> list[tuple[str, str]]:
    """List folders among agents and skills whose name cannot be used, as (parent folder, name)."""
    return [
        (shelf.folder, entry.name)
        for kind in ("agents", "skills")
        for shelf in shelves(tree, kind)
        for entry in entries_of(tree, shelf)
        if entry.kind == "dir" and not is_usable(kind, entry.name) and defines(tree, shelf, entry.name)
    ]


def list_ids(tree: Tree, kind: str) -> list[str]:
    """List what is defined on any shelf, sorted; `kind` is `agents` or `skills`."""
    names: set[str] = set()
    for shelf in shelves(tree, kind):
        for entry in entries_of(tree, shelf):
            if entry.kind != "dir" or entry.name in names or not is_usable(kind, entry.name):
                continue
            if not shelf.foreign or defines(tree, shelf, entry.name):
                names.add(entry.name)
    return sorted(names)


def folders_of(tree: Tree, kind: str, name: str) -> list[tuple[str, Scope]]:
    """Return the folders that define `name`, the one that serves it first."""
    return [(s.path(name), s.scope) for s in shelves(tree, kind) if defines(tree, s, name)]


def outside_folders(scope: Scope, name: str) -> list[str]:
    """Return where a skill of a scope other than the workspace may lie, whatever is searched."""
    if scope == "global":
        return [Shelf(folder, scope).path(name) for folder in ("global:skills", *USER_SHELVES.values())]
    return [f"builtin:skills/{name}"] if scope == "builtin" else []


class Served(NamedTuple):
    """The folder that serves a name, its scope, and the folders that it hides."""

    folder: str
    scope: Scope
    hides: tuple[str, ...]


def serving_folder(
    tree: Tree, kind: str, name: str, on: tuple[Shelf, ...] | None = None, *, hides: bool = True
) -> Served:
    """Find the folder that serves agent or skill `name`; `on` are its shelves, if they are known already.

    Whole-folder override: the first shelf that has it serves it entirely. Without `hides` it is not asked
    what that hides: who does not show it shall not rest on it. Raises `UnknownNameError` with near misses,
    `TreeError` where a link that leads out of its root stands in its place.
    """
    if not is_id(name):
        raise UsageError(
            f"{name!r} is not a name for {'an agent' if kind == 'agents' else 'a skill'}",
            hint="letters, digits, _ and - only",
        )
    known = shelves(tree, kind) if on is None else on
    for i, shelf in enumerate(known):
        folder = shelf.path(name)
        found = tree.kind(folder)
        if found == "other" and not (shelf.foreign and tree.kind(shelf.folder) == "other"):
            raise TreeError(
                "a link that leads out of this root, or to nowhere, cannot serve",
                file=folder,
                hint="put the folder itself there",
            )
        if found == "dir" and (not shelf.foreign or skill_file(tree, folder) is not None):
            lower = known[i + 1 :] if hides else ()
            hidden = (s.path(name) for s in lower if defines(tree, s, name))
            return Served(folder, shelf.scope, tuple(hidden))
    raise UnknownNameError.of(kind.removesuffix("s"), name, list_ids(tree, kind))
