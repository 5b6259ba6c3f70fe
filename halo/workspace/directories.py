"""Finds the directories of a workspace that have rules of their own."""

from typing import NamedTuple

from halo.files.tree import Tree

# Never part of a project's own text, and large.
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "target", "dist"})
_MOST = 20_000


class Directories(NamedTuple):
    """What a walk found.

    `with_rules`: directories below the root with `.halo/INSTRUCTIONS.md`, sorted; `walked`: every
    directory that was looked at, as tree paths; `complete`: False when there were more than 20,000.
    """

    with_rules: list[str]
    walked: list[str]
    complete: bool


def find_directories(tree: Tree) -> Directories:
    """Walk the workspace; hidden folders, links and dependency folders are not entered."""
    with_rules: list[str] = []
    walked: list[str] = []
    pending = [""]
    while pending:
        directory = pending.pop()
        path = f"workspace:{directory}"
        walked.append(path)
        if len(walked) > _MOST:
            return Directories(sorted(with_rules), walked, complete=False)
        for entry in tree.list(path):
            below = f"{directory}/{entry.name}" if directory else entry.name
            if entry.kind != "dir" or entry.link:
                continue
            if entry.name == ".halo" and directory:
                walked.append(f"workspace:{below}")
                if tree.kind(f"workspace:{below}/INSTRUCTIONS.md") == "file":
                    with_rules.append(directory)
            elif not entry.name.startswith(".") and entry.name not in _SKIPPED:
                pending.append(below)
    return Directories(sorted(with_rules), walked, complete=True)
