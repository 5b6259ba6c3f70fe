"""Submodules of a revision: their files at the commit that it names, where they are checked out."""

import os
from contextlib import ExitStack
from typing import NamedTuple

from halo.errors import TreeError
from halo.files.git_calls import call_git
from halo.files.git_objects import GitObjects
from halo.files.git_tree import GitTree
from halo.files.roots import Kind
from halo.files.tree import DEFAULT_LIMIT, Entry, Problem, Tree, problems_of
from halo.records.diagnostics import Diagnostic
from halo.workspace.locate import HALO_DIR

_ROOT = "workspace:"
_MODULES = ".gitmodules"


class Submodule(NamedTuple):
    """A submodule: where it lies below the workspace, and the commit that it is at."""

    path: str
    commit: str


class Submodules(NamedTuple):
    """The trees of submodules by their path in the workspace, and what had to be left out."""

    trees: dict[str, Tree]
    remarks: tuple[Diagnostic, ...]


def open_submodules(workspace: str, prefix: str, commit: str, stack: ExitStack) -> Submodules:
    """Open the submodules below a workspace as the revision `commit` has them.

    `workspace` is the folder on disk, `prefix` below the top of its repository. Left out, and so no folder
    for anybody, are those that are not checked out, or whose clone does not have the commit; that is worth a
    remark where layers may be in them. A submodule within a submodule is not entered.
    """
    found: dict[str, Tree] = {}
    remarks: list[Diagnostic] = []
    for module in _listed(workspace, prefix, commit):
        folder = os.path.join(workspace, *module.path.split("/"))
        if _checked_out(workspace, folder) and _has(folder, module.commit, workspace):
            tree = GitTree(folder, module.commit, {"workspace": ""}, workspace)
            found[module.path] = stack.enter_context(tree)
        elif HALO_DIR in module.path.split("/"):
            remarks.append(_left_out(module, commit))
    return Submodules(found, tuple(remarks))


def _left_out(module: Submodule, commit: str) -> Diagnostic:
    return Diagnostic(
        "submodule-left-out",
        "warning",
        f"commit {module.commit[:7]} of this submodule is not here, so {commit[:7]} is compared without it",
        _ROOT + module.path,
    )


def _listed(workspace: str, prefix: str, commit: str) -> list[Submodule]:
    """List what .gitmodules names and the revision holds; most repositories have none: one look-up."""
    with GitObjects(workspace) as objects:
        if objects.get(f"{commit}:{_MODULES}", 0) is None:
            return []
    named = call_git(
        workspace,
        *("config", "--blob", f"{commit}:{_MODULES}", "-z", "--get-regexp", r"^submodule\..*\.path$"),
    )
    paths = [os.fsdecode(entry.partition(b"\n")[2]) for entry in named.out.split(b"\0") if entry]
    if not paths:
        return []
    entries = call_git(workspace, "ls-tree", "-z", "--full-tree", commit, "--", *paths).out
    inside = f"{prefix}/" if prefix else ""
    found = []
    for entry in entries.split(b"\0"):
        # `<mode> <type> <id>TAB<path>`; 160000 is the mode of a submodule.
        head, _, name = os.fsdecode(entry).partition("\t")
        if head.startswith("160000 ") and name.startswith(inside):
            found.append(Submodule(name.removeprefix(inside), head.rpartition(" ")[2]))
    return found


def _checked_out(workspace: str, folder: str) -> bool:
    """Tell whether there is a repository in that very folder; a link on the way would lead elsewhere."""
    real = os.path.realpath(workspace)
    straight = os.path.realpath(folder) == os.path.join(real, os.path.relpath(folder, workspace))
    return straight and os.path.lexists(os.path.join(folder, ".git"))


def _has(folder: str, commit: str, workspace: str) -> bool:
    try:
        with GitObjects(folder, workspace) as objects:
            return objects.get(f"{commit}^{{tree}}", 0) is not None
    except TreeError:
        return False  # no repository that git would open


class MountedTree:
    """A tree whose workspace has other trees (their root is `workspace` too) in some of its folders."""

    def __init__(self, base: Tree, mounts: dict[str, Tree]) -> None:
        self._base = base
        self._mounts = {_ROOT + path: tree for path, tree in mounts.items()}

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes."""
        tree, below = self._at(path)
        try:
            return tree.read(below, limit)
        except TreeError as error:
            raise _at_path(error, path) from error

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries; a folder with a tree of its own is one."""
        tree, below = self._at(path)
        try:
            entries = tree.list(below)
        except TreeError as error:
            raise _at_path(error, path) from error
        start = path if path.endswith(":") else f"{path}/"
        return tuple(Entry(e.name, "dir") if start + e.name in self._mounts else e for e in entries)

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        tree, below = self._at(path)
        return tree.kind(below)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far."""
        return tuple(p for tree in (self._base, *self._mounts.values()) for p in problems_of(tree))

    def _at(self, path: str) -> tuple[Tree, str]:
        """Return the tree that holds `path`, and what the path is there."""
        above = path
        while above:
            mounted = self._mounts.get(above)
            if mounted is not None:
                return mounted, _ROOT + path[len(above) + 1 :]
            above = above.rpartition("/")[0]
        return self._base, path


def _at_path(error: TreeError, path: str) -> TreeError:
    return type(error)(error.message, file=path, hint=error.hint)
