"""The tree over a git revision, read from git's objects without touching the work tree."""

import stat as st_modes
from collections.abc import Mapping
from typing import NamedTuple

from halo.errors import TreeError
from halo.files.closing import Closing
from halo.files.git_objects import GitObjects
from halo.files.roots import Kind
from halo.files.tree_base import (
    DEFAULT_LIMIT,
    Entry,
    NotFound,
    Problem,
    absent,
    left_out,
    not_a_directory,
    not_a_file,
    split,
    too_large,
    unlistable,
)
from halo.files.walk import MAX_LINKS, LeavesRootError

# Layers are read again and again, for each target that they serve, and asking git takes two processes.
_KEPT = 1 << 16  # bytes of a file that is kept
_ALL_KEPT = 1 << 25  # bytes of all of them


class _Node(NamedTuple):
    mode: int  # as in stat; a submodule has one that stat does not know
    oid: str


class GitTree(Closing):
    """Folders of a revision as named roots, a context manager; the folder "" is the top of the repository.

    git is not taken from `workspace`; left out, it is `repo`.

    Symlinks are followed inside their root only, as on disk; a submodule is "other".
    """

    def __init__(self, repo: str, revision: str, roots: Mapping[str, str], workspace: str = "") -> None:
        self.revision = revision
        self._folders = dict(roots)
        self._objects = GitObjects(repo, workspace)
        self._top: _Node | None = None
        self._roots: dict[str, _Node | None] = {}
        self._trees: dict[str, dict[str, _Node]] = {}
        self._blobs: dict[str, bytes] = {}
        self._room = _ALL_KEPT
        self._problems: dict[tuple[str, str], Problem] = {}

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes as git keeps them (no filters, no line ending conversion)."""
        node = self._find(path)
        kind = _kind_of(node)
        if kind == "dir":
            raise not_a_file(path)
        if kind == "other":
            raise TreeError("is a submodule, a file was expected", file=path, hint="name another file")
        return self._blob(node, path, limit)

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries; names that cannot be used are left out and become `problems`."""
        node = self._find(path)
        if _kind_of(node) != "dir":
            raise not_a_directory(path)
        entries: list[Entry] = []
        for name, child in self._children(node).items():
            if reason := unlistable(name):
                self._problems[path, name] = left_out(path, name, reason)
            elif st_modes.S_ISLNK(child.mode):
                entries.append(Entry(name, self.kind(_child(path, name)), link=True))
            else:
                entries.append(Entry(name, _kind_of(child)))
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        try:
            return _kind_of(self._find(path))
        except LeavesRootError:
            return "other"
        except NotFound:
            pass
        try:
            self._find(path, follow=False)
        except NotFound:
            return "absent"
        return "other"  # a symlink that dangles

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far, each once, in order of path."""
        return tuple(self._problems[key] for key in sorted(self._problems))

    def close(self) -> None:
        """End the git process; a second time does nothing."""
        self._objects.close()

    def _find(self, path: str, *, follow: bool = True) -> _Node:
        """Return what `path` is; with `follow` never a symlink. Raises NotFound and LeavesRootError."""
        name, rel = split(path)
        root = self._root(name)
        if root is None:
            raise absent(path)
        return self._walk(root, rel, path, follow=follow)

    def _root(self, name: str) -> _Node | None:
        if name not in self._roots:
            folder = self._folders.get(name)
            self._roots[name] = None if folder is None else self._folder(folder)
        return self._roots[name]

    def _folder(self, folder: str) -> _Node | None:
        if self._top is None:
            top = self._objects.get(self.revision + "^{tree}")
            if top is None:
                raise TreeError(
                    f"git knows no revision {self.revision!r}",
                    file=self._objects.repo,
                    hint="see `git log`; in a shallow clone, fetch more of the history",
                )
            self._top = _Node(st_modes.S_IFDIR, top.oid)
        try:
            node = self._walk(self._top, folder, folder, follow=True)
        except NotFound:
            return None
        return node if _kind_of(node) == "dir" else None

    def _walk(self, start: _Node, rel: str, path: str, *, follow: bool) -> _Node:
        stack = [start]
        todo = _parts(rel)
        links = 0
        while todo:
            name = todo.pop()
            if _kind_of(stack[-1]) != "dir":
                raise absent(path)
            if name == "..":
                if len(stack) == 1:
                    raise _leaves(path)
                stack.pop()
                continue
            child = self._children(stack[-1]).get(name)
            if child is None:
                raise absent(path)
            if not st_modes.S_ISLNK(child.mode) or not (todo or follow):
                stack.append(child)
                continue
            links += 1
            target = self._blob(child, path, DEFAULT_LIMIT).decode(errors="surrogateescape")
            # An absolute link leads somewhere on the machine that wrote it, not into this revision.
            if links > MAX_LINKS or target.startswith("/"):
                raise _leaves(path)
            todo += _parts(target)
        return stack[-1]

    def _children(self, node: _Node) -> dict[str, _Node]:
        known = self._trees.get(node.oid)
        if known is None:
            found = self._objects.get(node.oid)
            if found is None or found.data is None:
                raise self._missing(node)
            known = self._trees[node.oid] = _parse_tree(found.data, len(node.oid) // 2)
        return known

    def _blob(self, node: _Node, path: str, limit: int) -> bytes:
        kept = self._blobs.get(node.oid)
        if kept is not None and len(kept) <= limit:
            return kept
        found = self._objects.get(node.oid, limit)
        if found is None:
            raise self._missing(node)
        if found.data is None:
            raise too_large(path, limit)
        if found.size <= min(_KEPT, self._room):
            self._room -= found.size
            self._blobs[node.oid] = found.data
        return found.data

    def _missing(self, node: _Node) -> TreeError:
        return TreeError(
            f"git lacks the object {node.oid}",
            file=self._objects.repo,
            hint="`git fsck` finds what is damaged; a partial clone wants `git fetch --refetch`",
        )


def _parse_tree(data: bytes, oid_bytes: int) -> dict[str, _Node]:
    """Read a tree object: `<mode in octal> <name>NUL<binary id>`, again and again."""
    children: dict[str, _Node] = {}
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + oid_bytes
        children[name.decode(errors="surrogateescape")] = _Node(int(mode, 8), data[end + 1 : at].hex())
    return children


def _kind_of(node: _Node) -> Kind:
    return "dir" if st_modes.S_ISDIR(node.mode) else "file" if st_modes.S_ISREG(node.mode) else "other"


def _parts(rel: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in rel.split("/") if part not in ("", ".")][::-1]


def _child(path: str, name: str) -> str:
    return path + name if path.endswith(":") else f"{path}/{name}"


def _leaves(path: str) -> LeavesRootError:
    return LeavesRootError(
        "leaves its root folder, or goes round in circles",
        file=path,
        hint="use a path or a symlink that stays inside, or copy the file in",
    )
