"""The targets of a workspace, kept up to date by what changed: only that is looked at again."""

import os
import stat as stat_modes
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.build.builder import Builder
from halo.build.freshness import stamp_at
from halo.build.targets import Survey, agents_and_skills
from halo.build.watch.consulted import Touched, folder_of, folders_above
from halo.errors import HaloError, TreeError
from halo.files.stamps import Stamp
from halo.files.tree import DiskTree, Input, NotFound, Tree, observe
from halo.records.diagnostics import Diagnostic
from halo.records.targets import ScopeTarget, Target
from halo.workspace.directories import MOST, Directories, Inside, look_into
from halo.workspace.oddities import find_oddities
from halo.workspace.parts import projection

_HALO = "/.halo"
_RULES = "/.halo/INSTRUCTIONS.md"
_ROOT = "workspace:"


class _Directory(NamedTuple):
    inside: Inside
    stamps: tuple[Stamp | None, Stamp | None]  # of itself and of its `.halo/`
    closed: str = ""


class Names(NamedTuple):
    """What was consulted for the agents and skills; `error`: why they could not be listed."""

    inputs: tuple[Input, ...]
    error: HaloError | None = None


class Inventory:
    """What `default_targets` finds, in memory. Directories are those of the workspace, relative to it."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._tree = DiskTree({})
        self._named = Survey([], ())
        self._inputs: tuple[Input, ...] = ()
        self._directories: dict[str, _Directory] = {}
        self._complete = True

    def look_at_directories(self) -> None:
        """Walk the whole workspace."""
        self._tree = self._builder.places.tree()
        self._directories = {}
        self._complete = True
        self._walk([""])

    def look_at_names(self) -> Names:
        """Look at the agents and skills anew; those of before stay where that fails."""
        tree = self._builder.recording_tree()
        error = None
        try:
            self._named = agents_and_skills(tree)
        except HaloError as caught:
            error = caught
        self._inputs = tree.inputs()
        return Names(self._inputs, error)

    def concerns_names(self, touched: Iterable[Touched]) -> bool:
        """Tell whether the agents and skills may be others: edits of their files seldom are a reason."""
        places = {
            place for path, moved in touched for place in ([path, folder_of(path)] if moved else [path])
        }
        tree = self._builder.places.tree()
        return any(
            not _is_same(tree, known)
            for known in self._inputs
            if known.path in places or not places.isdisjoint(folders_above(known.path))
        )

    @property
    def targets(self) -> dict[str, Target]:
        """The targets by name."""
        rules = [ScopeTarget(name) for name, known in self._directories.items() if known.inside.rules]
        return {target.name: target for target in (*self._named.targets, *rules)}

    @property
    def oddities(self) -> tuple[Diagnostic, ...]:
        """What no target can use. Raises `HaloError` for settings that cannot be read."""
        closed = [(_ROOT + name, known.closed) for name, known in self._directories.items() if known.closed]
        directories = Directories([], closed, self._complete)
        return (*find_oddities(self._tree, directories), *self._named.oddities)

    @property
    def folders(self) -> Iterator[str]:
        """The tree paths of the directories that were looked into."""
        return (_ROOT + folder for name in self._directories for folder in self._folders_of(name))

    def _folders_of(self, name: str) -> list[str]:
        return [name, name + _HALO] if self._directories[name].inside.halo else [name]

    def update(self, touched: Iterable[Touched]) -> list[str] | None:
        """Look again at the directories that these paths concern; return the tree paths that are new.

        None when they concern no directory.
        """
        concerned = {name for path, moved in touched for name in self._concerned(path, moved=moved)}
        if not concerned:
            return None
        # From the top: one that is gone takes those below it along.
        return [_ROOT + new for name in sorted(concerned) for new in self._look_again(name)]

    def unseen(self) -> list[Touched]:
        """Find directories that are not as they were last seen."""
        return [
            Touched(_ROOT + name, moved=True)
            for name, known in self._directories.items()
            if self._stamps(name, halo=known.inside.halo) != known.stamps
        ]

    def _concerned(self, path: str, *, moved: bool) -> Iterator[str]:
        """Tell which known directories have to be looked into when `path` changed."""
        if not path.startswith(_ROOT):
            return
        name = path.removeprefix(_ROOT)
        if name in self._directories:
            yield name
        for suffix in (_RULES, _HALO):
            if name.endswith(suffix) and (above := name.removesuffix(suffix)) in self._directories:
                yield above
        folder = folder_of(path)
        if moved and folder is not None and (above := folder.removeprefix(_ROOT)) in self._directories:
            if name in self._directories or self._is_directory(path):
                yield above
            else:
                self._seen(above)

    def _is_directory(self, path: str) -> bool:
        root, _, relative = path.partition(":")
        try:
            found = os.lstat(os.path.join(self._builder.places.roots[root], relative))
        except OSError:
            return False
        return stat_modes.S_ISDIR(found.st_mode)

    def _seen(self, name: str) -> None:
        """Note that a directory's files changed, which is nothing to us."""
        known = self._directories[name]
        self._directories[name] = known._replace(stamps=self._stamps(name, halo=known.inside.halo))

    def _stamps(self, name: str, *, halo: bool = False) -> tuple[Stamp | None, Stamp | None]:
        roots = self._builder.places.roots
        return stamp_at(_ROOT + name, roots), stamp_at(_ROOT + name + _HALO, roots) if halo else None

    def _look_again(self, name: str) -> list[str]:
        """Look into a known directory; return the folders that may be new."""
        if name not in self._directories:
            return []  # one above it is gone
        before = set(self._directories[name].inside.below)
        if not self._look_into(name):
            self._drop([name])
            return []
        below = self._directories[name].inside.below
        self._drop(before.difference(below))
        found = self._walk([each for each in below if each not in before])
        return [*self._folders_of(name), *found]

    def _walk(self, pending: list[str]) -> list[str]:
        """Look into directories and those below them; return the folders that are there."""
        found: list[str] = []
        while pending:
            name = pending.pop()
            if len(self._directories) >= MOST:
                self._complete = False
                break
            if self._look_into(name):
                found += self._folders_of(name)
                pending += self._directories[name].inside.below
        return found

    def _look_into(self, name: str) -> bool:
        # The stamps come first: a change in between is then one that was not seen.
        stamps = self._stamps(name, halo=True)
        inside, closed = Inside((), halo=False, rules=False), ""
        try:
            inside = look_into(self._tree, name)
            closed = inside.closed
        except NotFound:
            return False
        except TreeError as error:
            closed = error.message
        self._directories[name] = _Directory(inside, stamps if inside.halo else (stamps[0], None), closed)
        return True

    def _drop(self, names: Iterable[str]) -> None:
        gone = set(names)
        if not gone:
            return
        if "" in gone:
            self._directories = {}
        for name in [each for each in self._directories if self._is_below(each, gone)]:
            del self._directories[name]

    @staticmethod
    def _is_below(name: str, gone: set[str]) -> bool:
        parts = name.split("/")
        return any("/".join(parts[: i + 1]) in gone for i in range(len(parts)))


def _is_same(tree: Tree, known: Input) -> bool:
    try:
        now = observe(tree, known, projection(known.part) if known.part else None)
    except HaloError:
        return False
    return (now.kind, now.digest) == (known.kind, known.digest)
