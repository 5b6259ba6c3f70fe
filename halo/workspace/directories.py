"""Finds the directories of a workspace that have rules of their own."""

from typing import NamedTuple

from halo.errors import TreeError
from halo.files.tree import NotFound, Tree

# Never part of a project's own text, and large.
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "target", "dist"})
MOST = 20_000  # directories that are looked into


class Inside(NamedTuple):
    """What a directory holds: the names of those below it that are entered, a `.halo/`, rules of its own.

    `closed`: why rules that seem to be there are not seen.
    """

    below: tuple[str, ...]
    halo: bool
    rules: bool
    closed: str = ""


class Directories(NamedTuple):
    """What a walk found.

    `with_rules`: directories below the root with `.halo/INSTRUCTIONS.md`, sorted; `closed`: those that
    may not be looked into, with the reason; `complete`: False when there were more than 20,000.
    """

    with_rules: list[str]
    closed: list[tuple[str, str]]
    complete: bool


def look_into(tree: Tree, directory: str) -> Inside:
    """Look into one directory; the root's own rules are a layer and not counted.

    Hidden folders, links and dependency folders are not entered. Raises `NotFound`, `TreeError`.
    """
    below: list[str] = []
    halo = False
    closed = ""
    for entry in tree.list(f"workspace:{directory}"):
        if entry.kind != "dir" or entry.link:
            if entry.name == ".halo" and entry.kind != "dir" and directory:
                closed = f"{directory}/.halo is no folder of this workspace"
            continue
        if entry.name == ".halo":
            halo = bool(directory)
        elif not entry.name.startswith(".") and entry.name not in _SKIPPED:
            below.append(f"{directory}/{entry.name}" if directory else entry.name)
    rules = tree.kind(f"workspace:{directory}/.halo/INSTRUCTIONS.md") if halo else "absent"
    if rules in ("dir", "other"):
        closed = f"{directory}/.halo/INSTRUCTIONS.md is no file of this workspace"
    return Inside(tuple(below), halo, rules == "file", closed)


def find_directories(tree: Tree) -> Directories:
    """Walk the workspace."""
    with_rules: list[str] = []
    closed: list[tuple[str, str]] = []
    pending = [""]
    walked = 0
    while pending:
        directory = pending.pop()
        walked += 1
        if walked > MOST:
            return Directories(sorted(with_rules), closed, complete=False)
        try:
            inside = look_into(tree, directory)
        except NotFound:
            continue  # it has just been removed; whatever removed it changed its parent
        except TreeError as error:
            closed.append((f"workspace:{directory}", error.message))
            continue
        if inside.rules:
            with_rules.append(directory)
        if inside.closed:
            closed.append((f"workspace:{directory}", inside.closed))
        pending += inside.below
    return Directories(sorted(with_rules), closed, complete=True)
