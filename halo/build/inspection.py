"""Looks over the targets of a workspace: which are stale, and what spares the next build the look.

What the gate of the last build vouches for is not looked at again: of a change only the targets that rest on
what changed. Where there is no such gate, or where it cannot tell what a change means, every target is.
"""

import os
import stat as stat_modes
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from halo.build import gate
from halo.build.builder import Builder
from halo.build.gate_lines import GateLines, path_of, unchanged_below
from halo.build.gatekeeper import Gatekeeper, Seen, gate_roots
from halo.build.whole import Workspace, standing_remarks, survey
from halo.compiler.version import COMPILER
from halo.files.stamps import Stamp
from halo.records.targets import Target

if TYPE_CHECKING:
    from halo.records.diagnostics import Diagnostic

_SURVEY = "."  # the owner of what was consulted to find the targets; none is called so


class Inspection:
    """One look over a workspace.

    `count` is the number of its targets, `stale` are those to be compiled; `oddities` are what no target can
    use, `remarks` what every build says of what is fresh, each once.
    """

    def __init__(self, builder: Builder, keeper: Gatekeeper, count: int) -> None:
        self._builder = builder
        self._keeper = keeper
        self._whole: Workspace | None = None
        self.count = count
        self.stale: list[Target] = []
        self.oddities: tuple[Diagnostic, ...] = ()
        self.remarks: dict[Diagnostic, None] = {}

    def take(self, whole: Workspace) -> None:
        """Take in the targets as they were just found."""
        self._whole = whole
        self.count = len(whole.targets)
        self.oddities = whole.oddities
        if whole.oddities:  # to be said each time
            self._keeper.own_unsure(_SURVEY, self._builder.places.halo)
        else:
            self._keeper.own(_SURVEY, whole.inputs, whole.recorded_ns)

    def look(self, targets: Iterable[Target]) -> None:
        """Look which of these targets are stale."""
        looks = [(target, self._look(target)) for target in targets]
        # A pointer that was renewed is not the one that was seen; by now it may have rested long enough.
        looks = [(target, self._look(target) if look == "renewed" else look) for target, look in looks]
        for target, look in looks:
            if look == "renewed":
                self._to_be_looked_at(target)
        self.stale = [target for target, look in looks if look == "stale"]

    def look_again(self) -> int:
        """Look at the stale targets once more, after they were compiled; return how many still are."""
        self.look(self.stale)
        return len(self.stale)

    def finish(self) -> list[str]:
        """Forget what no longer exists, and write the gate; return the names of the pointers removed."""
        gone = self._builder.prune(self._whole.targets) if self._whole is not None else []
        with suppress(OSError):  # on a full disk there is none: it only saves time
            self.write_gate()
        return gone

    def write_gate(self) -> bool:
        """Write the gate; return whether it can be passed.

        It cannot while a target is stale, while there is something to say each time, or where stat data do
        not speak for an input; it then still tells what a change concerns.
        """
        for target in self.stale:
            self._to_be_looked_at(target)
        path = gate.workspace_gate(self._builder.places.workspace)
        return self._keeper.write(path, str(self.count), self._builder.now_ns())

    def _look(self, target: Target) -> Literal["stale", "renewed", "fresh"]:
        path = self._builder.pointers.path(target)
        seen = Seen(path, self._builder.now_ns())
        status = self._builder.status(target)
        if status.artifact is None or status.pointer is None:
            return "stale"
        if status.renewed:
            return "renewed"
        remarks = standing_remarks(status.artifact)
        self.remarks.update(dict.fromkeys(remarks))
        files = self._builder.store.files(status.pointer.artifact)
        self._keeper.own_target(status.pointer, seen, files, each_time=bool(remarks))
        return "fresh"

    def _to_be_looked_at(self, target: Target) -> None:
        """See to it that the next build looks at a target, whatever happens."""
        self._keeper.own_unsure(target.name, self._builder.pointers.path(target))


def inspect(builder: Builder) -> Inspection:
    """Look at what changed since the gate was written; at everything where that cannot be told."""
    places = builder.places
    with suppress(OSError):  # first, for `.halo/` is watched from here on
        os.makedirs(builder.store.folder, exist_ok=True)
        os.makedirs(builder.pointers.folder, exist_ok=True)
    old = gate.read(gate.workspace_gate(places.workspace), gate_roots(places), COMPILER)
    resumed = _resume(builder, old) if old is not None and builder.bundle is None else None
    return resumed if resumed is not None else inspect_all(survey(builder))


def inspect_all(whole: Workspace) -> Inspection:
    """Look at every target."""
    inspection = Inspection(whole.builder, Gatekeeper(whole.builder.places), len(whole.targets))
    inspection.take(whole)
    inspection.look(whole.targets)
    return inspection


def _resume(builder: Builder, old: gate.Gate) -> Inspection | None:
    now_ns = builder.now_ns()
    changed = gate.changed(old)
    ways = _ways(old, changed)
    if ways is None:
        return None
    lines = GateLines.of(old)
    affected = lines.resting_on(changed)
    lines.drop(affected, changed)
    pointers = [builder.pointers.named(name) for name in sorted(affected) if name != _SURVEY]
    targets = [pointer.target for pointer in pointers if pointer is not None]
    whole = survey(builder) if _SURVEY in affected or len(targets) < len(pointers) else None
    if whole is not None:
        names = {target.name for target in whole.targets}
        lines.drop([name for name in lines.owners if name not in names], set())
        targets = [target for target in whole.targets if target.name not in lines.owners]
    keeper = Gatekeeper(builder.places, lines)
    for path in lines.ways.intersection(ways):
        keeper.watch(path, ways[path], now_ns)
    inspection = Inspection(builder, keeper, int(old.answer))
    if whole is not None:
        inspection.take(whole)
    inspection.look(targets)
    return inspection


def _ways(old: gate.Gate, changed: set[int]) -> dict[str, Stamp | None] | None:
    """Look at the changed paths that lead to unchanged ones: folders, or None where there is none any more.

    None when one of them, or something in one of them, is a link (by now): it may lead to what only looks
    unchanged.
    """
    found: dict[str, Stamp | None] = {}
    for path in (path_of(old.lines[number]) for number in changed):
        try:
            now = os.lstat(path)
        except OSError:
            found[path] = None
            continue
        if stat_modes.S_ISLNK(now.st_mode):
            return None
        found[path] = Stamp.of(now)
    needed: dict[str, Stamp | None] = {}
    for path in unchanged_below(old, changed, set(found)):
        if os.path.islink(path):
            return None
        folder = path.rpartition(os.sep)[0]
        needed[folder] = found[folder]
    return needed
