"""Finds the directories of a workspace that have rules of their own."""

from typing import NamedTuple

from halo.errors import TreeError
from halo.files.tree import NotFound, Tree

# Never part of a project's own text, and large.
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "target", "dist"})
_MOST = 20_000


class Directories(NamedTuple):
    """What a walk found.

    `with_rules`: directories below the root with `.halo/INSTRUCTIONS.md`, sorted; `closed`: those that
    may not be looked into, with the reason; `complete`: False when there were more than 20,000.
    """

    with_rules: list[str]
    closed: list[tuple[str, str]]
    complete: bool


def find_directories(tree: Tree) -> Directories:
    """Walk the workspace; hidden folders, links and dependency folders are not entered."""
    with_rules: list[str] = []
    closed: list[tuple[str, str]] = []
    pending = [""]
    walked = 0
    while pending:
        directory = pending.pop()
        walked += 1
        if walked > _MOST:
            return Directories(sorted(with_rules), closed, complete=False)
        try:
            entries = tree.list(f"workspace:{directory}")
        except NotFound:
            continue  # it has just been removed; whatever removed it changed its parent
        except TreeError as error:
            closed.append((f"workspace:{directory}", error.message))
            continue
        for entry in entries:
            below = f"{directory}/{entry.name}" if directory else entry.name
            if entry.kind != "dir" or entry.link:
                continue
            if entry.name == ".halo" and directory:
                if tree.kind(f"workspace:{below}/INSTRUCTIONS.md") == "file":
                    with_rules.append(directory)
            elif not entry.name.startswith(".") and entry.name not in _SKIPPED:
                pending.append(below)
    return Directories(sorted(with_rules), closed, complete=True)
