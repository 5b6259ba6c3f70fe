"""Writes gates: collects the stat data of what an answer rests on."""

import os
import stat as stat_modes
from collections.abc import Callable

from halo.build import gate
from halo.compiler.version import COMPILER
from halo.errors import HaloError
from halo.files.digests import sha256
from halo.files.seal import machine_key
from halo.files.stamps import Stamp, is_racy
from halo.files.stamps import stamp as stamp_of_file
from halo.files.tree_recording import EXISTS, UNREADABLE, Input
from halo.workspace.parts import projection
from halo.workspace.places import Places


def gate_roots(places: Places) -> gate.Roots:
    """Name what a gate of these places speaks for."""
    return (places.workspace, places.home, places.templates, places.user)


class Gatekeeper:
    """Collects entries for one gate. `now_ns` is the wall clock before the first of them is taken.

    Stamps of inputs are those that were recorded before the inputs were read, so that a change in the
    meantime closes the gate.
    """

    def __init__(self, places: Places, now_ns: int) -> None:
        self._places = places
        self._roots = places.roots
        self._now_ns = now_ns
        self._entries: dict[str, gate.Entry | None] = {}
        self._sure = True

    def inputs(self, inputs: tuple[Input, ...]) -> None:
        """Add what was consulted; what stat data cannot speak for spoils the gate."""
        for known in inputs:
            root, _, relative = known.path.partition(":")
            if root not in self._roots:  # an installed hook: no stat data tell whether it is the same
                self._sure = False
                continue
            folder = self._roots[root]
            path = os.path.join(folder, relative) if relative else folder
            self._ancestors(folder, relative)
            if known.stamp is None:
                self._sure = self._sure and known.kind == "absent"
                self._entries[path] = None
            else:
                self._add(path, known.stamp, lambda k=known, p=path: _digest_of(k, p))  # type: ignore[misc]

    def _ancestors(self, folder: str, relative: str) -> None:
        """Watch the folders on the way to an input: one that becomes a link leads elsewhere."""
        parts = relative.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            path = os.path.join(folder, *parts[:depth])
            if path in self._entries:
                continue
            try:
                found = os.lstat(path)
            except OSError:
                continue  # what is below it is absent, and watched as such
            self._sure = self._sure and not stat_modes.S_ISLNK(found.st_mode)
            self._add(path, Stamp.of(found), lambda: gate.EXISTS)

    def files(self, *paths: str) -> None:
        """Add files that must stay as they are now. Take them in before they are read and verified."""
        for path in paths:
            stamp = stamp_of_file(path)
            if stamp is None:
                self._sure = False
            else:
                self._add(path, stamp, lambda p=path: gate.content_digest(p))  # type: ignore[misc]

    def _add(self, path: str, stamp: Stamp, digest: Callable[[], str | None]) -> None:
        """Note an entry; its digest is asked for only while a later write could leave the same stamp."""
        found = digest() if is_racy(stamp, self._now_ns) else gate.SETTLED
        self._sure = self._sure and found is not None
        self._entries[path] = (stamp.mtime_ns, stamp.ctime_ns, stamp.size, stamp.inode, found or "")

    def write(self, path: str, answer: str) -> bool:
        """Write the gate if it can be passed; return whether it was written."""
        if not self._sure:
            return False
        key = machine_key(self._places.home, make=True)
        if key is None:
            return False
        data = gate.render(
            self._entries,
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


def _digest_of(known: Input, path: str) -> str | None:
    """Return what a gate compares an input by; None where it cannot."""
    if known.digest == EXISTS:
        return gate.EXISTS
    if known.digest == UNREADABLE:
        return None
    if not known.part:
        return known.digest
    # The gate knows no parts. It may vouch for the whole file if the part in it is the one that was read.
    with open(path, "rb") as file:
        data = file.read()
    try:
        part = projection(known.part)(data)
    except (HaloError, KeyError):
        return None
    return sha256(data) if sha256(part) == known.digest else None
