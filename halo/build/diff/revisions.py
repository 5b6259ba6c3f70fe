"""The states of a workspace that can be compared: its tree at a git revision, and as it lies on disk."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from halo.build.diff.submodules import MountedTree, open_submodules
from halo.errors import NoWorkspaceError, UsageError
from halo.files.git_calls import call_git
from halo.files.git_objects import GitObjects
from halo.files.git_tree import GitTree
from halo.files.roots import Kind
from halo.files.tree import DiskTree, Entry, Problem, Tree, problems_of, split
from halo.files.tree_base import DEFAULT_LIMIT
from halo.records.diagnostics import Diagnostic
from halo.records.differences import Side
from halo.workspace.locate import HALO_DIR, find_workspace, halo_home, templates_folder

WORK_TREE = Side("the work tree")


class State(NamedTuple):
    """A state of a workspace, its tree, and what of it could not be opened."""

    side: Side
    tree: Tree
    remarks: tuple[Diagnostic, ...] = ()


class Repository(NamedTuple):
    """The git repository around `folder`, which is `prefix` below its top ("" for the top itself)."""

    folder: str
    prefix: str
    shallow: bool

    @classmethod
    def around(cls, folder: str) -> "Repository":
        """Find it. Raises `UsageError` where there is none or git refuses, `StartError` without git."""
        answer = call_git(folder, "rev-parse", "--show-prefix", "--is-shallow-repository")
        prefix, _, shallow = os.fsdecode(answer.out).rstrip("\r\n").rpartition("\n")
        if answer.code or shallow not in ("true", "false"):
            words = answer.said.partition("\n")[0].removeprefix("fatal: ") or "this is no work tree"
            raise UsageError(
                f"there are no revisions to compare: {words}",
                file=folder,
                hint="the workspace has to lie in the work tree of a git repository",
            )
        return cls(folder, prefix.rstrip("/\r"), shallow == "true")

    def commit(self, revision: str) -> str:
        """Return the id of the commit (or tree) that `revision` names. Raises `UsageError` for none."""
        with GitObjects(self.folder) as objects:
            for kind in ("commit", "tree"):
                found = objects.get(f"{revision}^{{{kind}}}", 0) if _plain(revision) else None
                if found is not None:
                    return found.oid
        raise UsageError(f"git knows no revision {revision!r}", file=self.folder, hint=self._hint(revision))

    def _hint(self, revision: str) -> str:
        if ".." in revision:
            return "give two revisions as two words: halo diff OLD NEW"
        if self.shallow:
            return "this clone is shallow: fetch more, as with `git fetch --unshallow` or `fetch-depth: 0`"
        if revision == "HEAD":
            return "make a first commit"
        return "see `git log` and `git branch --all`"


def _plain(revision: str) -> bool:
    return revision.isprintable() and bool(revision)


@contextmanager
def open_states(
    start: str, environ: Mapping[str, str], revisions: Sequence[str], *, with_global: bool
) -> Iterator[tuple[State, State]]:
    """Open two states of the workspace at or above `start`; a single revision is followed by the work tree.

    Both see the packaged templates, and the global folder of this machine if `with_global`; neither sees the
    settings of this machine. Raises `UsageError` and `StartError` for what cannot be compared.
    """
    home = halo_home(environ)
    roots = {"builtin": templates_folder()}
    if with_global:
        roots["global"] = os.path.join(home, "global")
    workspace, repository = _find(start, home, revisions)
    with ExitStack() as stack:
        states = []
        for revision in revisions:
            commit = repository.commit(revision)
            tree: Tree = stack.enter_context(
                GitTree(repository.folder, commit, {"workspace": repository.prefix})
            )
            modules = open_submodules(workspace, repository.prefix, commit, stack)
            tree = MountedTree(tree, modules.trees) if modules.trees else tree
            joined = _JoinedTree(tree, DiskTree(roots))
            states.append(State(Side(revision, commit), joined, modules.remarks))
        if len(states) < 2:
            states.append(State(WORK_TREE, _JoinedTree(DiskTree({"workspace": workspace}), DiskTree(roots))))
        yield states[0], states[1]


def _find(start: str, home: str, revisions: Sequence[str]) -> tuple[str, Repository]:
    """Find the workspace on disk; where it was deleted, as one of the revisions has it."""
    try:
        workspace = find_workspace(start, home)
    except NoWorkspaceError:
        if not os.path.isdir(start):
            raise
        found = _deleted(os.path.realpath(start), revisions)
        if found is None:
            raise
        return found
    return workspace, Repository.around(workspace)


def _deleted(start: str, revisions: Sequence[str]) -> tuple[str, Repository] | None:
    try:
        repository = Repository.around(start)
    except UsageError:
        return None
    for revision in revisions:
        folder, prefix = start, repository.prefix
        with GitTree(start, repository.commit(revision), {"top": ""}) as tree:
            while tree.kind(f"top:{prefix}/{HALO_DIR}" if prefix else f"top:{HALO_DIR}") != "dir":
                if not prefix:
                    break
                folder, prefix = os.path.dirname(folder), prefix.rpartition("/")[0]
            else:
                return folder, repository._replace(prefix=prefix)
    return None


class _JoinedTree:
    """The root `workspace` of one tree and all others of another; without stat data, which nobody needs."""

    def __init__(self, workspace: Tree, others: Tree) -> None:
        self._workspace = workspace
        self._others = others

    def _of(self, path: str) -> Tree:
        return self._workspace if split(path)[0] == "workspace" else self._others

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes."""
        return self._of(path).read(path, limit)

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries."""
        return self._of(path).list(path)

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        return self._of(path).kind(path)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far."""
        return problems_of(self._workspace) + problems_of(self._others)
