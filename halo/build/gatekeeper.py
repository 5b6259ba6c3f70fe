"""Writes gates: collects the stat data of what an answer rests on."""

import os
import stat as stat_modes

from halo.build import gate
from halo.compiler.version import COMPILER
from halo.files.seal import machine_key
from halo.files.stamps import Stamp, is_racy
from halo.files.stamps import stamp as stamp_of_file
from halo.files.tree_recording import Input
from halo.workspace.places import Places


def gate_roots(places: Places) -> gate.Roots:
    """Name what a gate of these places speaks for."""
    return (places.workspace, places.home, places.templates)


class Gatekeeper:
    """Collects stamps for one gate. `now_ns` is the wall clock before the first of them is taken.

    Stamps of inputs are those that were recorded before the inputs were read, so that a change in the
    meantime closes the gate.
    """

    def __init__(self, places: Places, now_ns: int) -> None:
        self._places = places
        self._roots = places.roots
        self._now_ns = now_ns
        self._stamps: dict[str, gate.PlainStamp | None] = {}
        self._sure = True

    def inputs(self, inputs: tuple[Input, ...], recorded_ns: int) -> None:
        """Add what was consulted; what stat data cannot speak for spoils the gate."""
        for known in inputs:
            root, _, relative = known.path.partition(":")
            folder = self._roots[root]
            path = os.path.join(folder, relative) if relative else folder
            self._ancestors(folder, relative)
            if known.stamp is None:
                self._sure = self._sure and known.kind == "absent"
                self._stamps[path] = None
            else:
                self._sure = self._sure and not is_racy(known.stamp, recorded_ns)
                self._stamps[path] = _plain(known.stamp)

    def _ancestors(self, folder: str, relative: str) -> None:
        """Watch the folders on the way to an input: one that becomes a link leads elsewhere."""
        parts = relative.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            path = os.path.join(folder, *parts[:depth])
            if path in self._stamps:
                continue
            try:
                found = os.lstat(path)
            except OSError:
                continue  # what is below it is absent, and watched as such
            self._sure = self._sure and not stat_modes.S_ISLNK(found.st_mode)
            self._stamps[path] = _plain(Stamp.of(found))

    def files(self, *paths: str) -> None:
        """Add files that must stay as they are now. Take them in before they are read and verified."""
        for path in paths:
            stamp = stamp_of_file(path)
            self._sure = self._sure and stamp is not None
            self._stamps[path] = _plain(stamp) if stamp is not None else None

    def write(self, path: str, answer: str) -> bool:
        """Write the gate if it can be passed; return whether it was written."""
        if not self._sure:
            return False
        key = machine_key(self._places.home, make=True)
        if key is None:
            return False
        data = gate.render(
            self._stamps,
            roots=gate_roots(self._places),
            compiler=COMPILER,
            recorded_ns=self._now_ns,
            answer=answer,
            key=key,
        )
        if data is None:
            return False
        from halo.files.atomic import replace_file

        replace_file(path, data)
        return True


def _plain(stamp: Stamp) -> gate.PlainStamp:
    return (stamp.mtime_ns, stamp.ctime_ns, stamp.size, stamp.inode)
