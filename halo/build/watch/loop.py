"""`halo watch`: keeps every artifact of a workspace fresh while its layers are written.

The order is always: watch the folders, then look at what is in them. So whatever happens after a look is
told by an event. Only the targets that a change concerns are looked at, and `Builder.status` decides whether
they are fresh. What no event tells (an event that was lost, a network file system, the parent of the
workspace moved away) is found by comparing stamps from time to time.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from halo.build.builder import Builder
from halo.build.collecting import Outcome
from halo.build.diff.comparing import compare
from halo.build.watch.consulted import Consulted, Touched
from halo.build.watch.events import Back, Built, Event, Failed, Gone, Lost, Watching
from halo.build.watch.folders import Watched
from halo.build.watch.inventory import Inventory
from halo.build.watch.notices import Noticed, Notices
from halo.compiler.assemble import Compiled
from halo.errors import ArtifactError, HaloError
from halo.files.tree import Input
from halo.records.artifacts import Artifact
from halo.records.targets import Target

if TYPE_CHECKING:
    from halo.records.diagnostics import Diagnostic

_TICK = 1.0  # seconds between two looks for what no event tells, at least
_SHARE = 200  # and so many times as long as a look takes
_PAUSE = 0.2  # seconds between two looks for a `.halo/` that is gone

# What editors leave beside a file while they save or hold it: vim, emacs, and all that keep a backup.
_TEMPORARY = re.compile(r"4913|.*~|\..*\.sw[a-z]|\.#.*|#.*#")

_NAMES = ""  # the owner of what was consulted to list agents and skills; no target is called so


class Watcher:
    """Watches one workspace. `clock` counts seconds from anywhere."""

    def __init__(
        self, builder: Builder, notices: Notices, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._builder = builder
        self._roots = builder.places.roots
        self._notices = notices
        self._clock = clock
        self._began = clock()
        self._next_look = clock()
        self._forget()

    def _forget(self) -> None:
        self._inventory = Inventory(self._builder)
        self._consulted = Consulted()
        self._watched = Watched(self._roots)
        self._asked: set[str] = set()
        self._targets: dict[str, Target] = {}
        self._made: dict[str, str] = {}  # artifact ids by target
        self._failed: dict[str, str] = {}  # messages by target
        self._again: set[str] = set()  # targets that failed for reasons outside of their inputs
        self._told: set[Diagnostic] = set()

    def events(self) -> Iterator[Event]:
        """Build what is stale, then wait for changes, without end. A signal is a `KeyboardInterrupt`."""
        yield from self._begin()
        while True:
            noticed = self._notices.wait(_TICK)
            self._began = self._clock()
            if not os.path.isdir(self._builder.places.halo):
                yield from self._wait_for_halo()
                continue
            touched, names = self._translate(noticed), set[str]()
            force = not noticed.sure
            if force or (not noticed.notices and self._clock() >= self._next_look):
                touched += self._unseen()
                # The folders may be others than those that are watched.
                force = force or bool(touched)
                names |= self._again
            yield from self._settle(touched, names, force=force)

    def _begin(self) -> Iterator[Event]:
        self._began = self._clock()
        self._forget()
        self._inventory.look_at_directories()
        yield from self._list_names()
        yield from self._recount()
        for name, target in self._targets.items():
            pointer = self._builder.pointers.read(target)
            if pointer is not None:
                self._made[name] = pointer.artifact
                self._consulted.put(name, pointer.inputs)
        self._watched = self._all_watched()
        self._open()
        yield from self._settle(self._unseen(), set(self._targets), force=False)
        yield from self._prune()
        yield Watching(len(self._targets), len(self._failed), len(self._asked))

    def _wait_for_halo(self) -> Iterator[Event]:
        folder = self._builder.places.halo
        yield Lost(folder)
        while not os.path.isdir(folder):
            time.sleep(_PAUSE)
        yield Back(folder)
        yield from self._begin()

    def _translate(self, noticed: Noticed) -> list[Touched]:
        found = {
            Touched(path, notice.moved)
            for notice in noticed.notices
            for path in self._watched.tree_paths(notice.path)
        }
        passing = [each for each in found if _TEMPORARY.fullmatch(each.path.rpartition("/")[2])]
        self._consulted.look(passing, self._roots)
        return sorted(found.difference(passing))

    def _unseen(self) -> list[Touched]:
        began = self._clock()
        found = [*self._consulted.unseen(self._roots), *self._inventory.unseen()]
        ended = self._clock()
        self._next_look = ended + max(_TICK, (ended - began) * _SHARE)
        return found

    def _settle(self, touched: list[Touched], names: set[str], *, force: bool) -> Iterator[Event]:
        """Look at what these paths and targets concern, until all of it is watched. `force`: anew."""
        while touched or names or force:
            force = force or any(moved and self._watched.outdated(path) for path, moved in touched)
            self._consulted.look(touched, self._roots)
            names |= self._consulted.affected(touched)
            before = set(self._targets)
            renamed = _NAMES in names and self._inventory.concerns_names(touched)
            if renamed:
                yield from self._list_names()
            found = self._inventory.update(touched)
            for path in found or ():
                self._watched.add(path)
            if renamed or found is not None:
                yield from self._recount()
            names |= self._targets.keys() - before
            for name in sorted(names):
                if name in self._targets:
                    yield from self._check(name, self._targets[name])
            if force:
                self._watched = self._all_watched()
            touched = self._unseen() if self._open(force=force) else []
            names, force = set(), False

    def _all_watched(self) -> Watched:
        return Watched(self._roots, chain(self._consulted.paths, self._inventory.folders))

    def _open(self, *, force: bool = False) -> bool:
        """Watch what is not watched yet; return whether there was something."""
        wanted = self._watched.tops if self._notices.deep else self._watched.folders
        if not force and wanted <= self._asked:
            return False
        self._asked = set(wanted)
        self._notices.open(wanted)
        return True

    def _list_names(self) -> Iterator[Event]:
        inputs, error = self._inventory.look_at_names()
        self._follow(_NAMES, inputs)
        message = str(error) if error is not None else ""
        if message and self._failed.get(_NAMES) != message:
            yield Failed(None, message)
        self._failed.pop(_NAMES, None)
        if message:
            self._failed[_NAMES] = message

    def _recount(self) -> Iterator[Event]:
        """Take notice of targets that are new or gone, and of what none of them can use."""
        before, self._targets = self._targets, self._inventory.targets
        gone = before.keys() - self._targets.keys()
        for name in gone:
            self._consulted.drop(name)
            self._made.pop(name, None)
            self._failed.pop(name, None)
            self._again.discard(name)
        if gone:
            yield from self._prune()
        with suppress(HaloError):  # settings that cannot be read: said when the names are listed
            oddities = self._inventory.oddities
            yield from (oddity for oddity in oddities if oddity not in self._told)
            self._told = set(oddities)

    def _prune(self) -> Iterator[Event]:
        if _NAMES in self._failed:
            return  # not to be read is not to be gone
        for name in self._builder.prune(list(self._targets.values())):
            yield Gone(name)

    def _check(self, name: str, target: Target) -> Iterator[Event]:
        """Make sure that a target is fresh; say what became of it unless nothing did."""
        tree = self._builder.recording_tree()
        self._again.discard(name)
        try:
            status = self._builder.status(target)
            artifact = status.artifact or self._builder.compile(target, status.pointer, tree)
        except (HaloError, OSError) as error:
            # Another outcome takes a change in what has just been consulted, or more room on the disk.
            if isinstance(error, OSError):
                self._again.add(name)
            if consulted := tree.inputs():
                self._follow(name, consulted)
            message = str(error)
            if self._failed.get(name) != message:
                self._failed[name] = message
                yield Failed(target, message)
            return
        fresh = status.pointer.inputs if status.artifact is not None and status.pointer is not None else None
        self._follow(name, tree.inputs() if fresh is None else fresh)
        before, failed = self._made.get(name), self._failed.pop(name, "")
        self._made[name] = artifact.id
        if failed or before != artifact.id:
            yield self._built(target, artifact, before)

    def _follow(self, owner: str, inputs: tuple[Input, ...]) -> None:
        for path in self._consulted.put(owner, inputs):
            self._watched.add(path)

    def _built(self, target: Target, artifact: Artifact, before: str | None) -> Built:
        seconds = self._clock() - self._began
        old = self._load(before) if before is not None else None
        known = set(old.manifest.diagnostics) if old is not None else set()
        return Built(
            target,
            artifact,
            compare(_outcome(target, old), _outcome(target, artifact)) if old is not None else None,
            tuple(remark for remark in artifact.manifest.diagnostics if remark not in known),
            seconds,
        )

    def _load(self, identity: str) -> Artifact | None:
        try:
            return self._builder.store.load(identity)
        except ArtifactError:
            return None  # removed since, or damaged: there is nothing to compare with


def _outcome(target: Target, artifact: Artifact) -> Outcome:
    return Outcome(target, Compiled(artifact.prompt, artifact.manifest), None, ())
