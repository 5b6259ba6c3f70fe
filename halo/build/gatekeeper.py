"""Writes gates: collects the stat data of what an answer rests on."""

import os
import stat as stat_modes
from typing import NamedTuple

from halo.build import gate
from halo.build.gate_lines import GateLines
from halo.build.store import id_of
from halo.compiler.version import COMPILER
from halo.errors import HaloError
from halo.files.digests import sha256
from halo.files.seal import machine_key
from halo.files.stamps import Stamp, is_racy
from halo.files.stamps import stamp as stamp_of_file
from halo.files.tree_recording import EXISTS, UNREADABLE, Input
from halo.records.artifacts import Pointer
from halo.workspace.parts import projection
from halo.workspace.places import Places


def gate_roots(places: Places) -> gate.Roots:
    """Name what a gate of these places speaks for."""
    return (places.workspace, places.home, places.templates, places.user)


class Seen:
    """A file as it stood: its stamp, and its digest for as long as that does not speak for it.

    `now_ns` is the wall clock before the content was read that this is to stand for.
    """

    def __init__(self, path: str, now_ns: int) -> None:
        self.path = path
        self.now_ns = now_ns
        self.stamp = stamp_of_file(path)
        settled = self.stamp is not None and not is_racy(self.stamp, now_ns)
        self.digest = gate.SETTLED if settled else _content_digest(path)


class _Folder(NamedTuple):
    """A folder on the way to inputs. `unsure`: the lines of the links among it and those above."""

    path: str
    unsure: tuple[int, ...]


class Gatekeeper:
    """Collects the lines of one gate, owner by owner.

    Stamps of inputs are those that were recorded before the inputs were read, so that a change in the
    meantime closes the gate.
    """

    def __init__(self, places: Places, lines: GateLines | None = None) -> None:
        self._places = places
        self._roots = places.roots
        self._folders: dict[str, _Folder] = {}
        self.lines = lines if lines is not None else GateLines()

    def own(self, name: str, inputs: tuple[Input, ...], now_ns: int) -> None:
        """Say that `name` rests on what was consulted. `now_ns` is the wall clock before that was checked."""
        self.lines.own(name, self._inputs(inputs, now_ns))

    def own_target(
        self, pointer: Pointer, seen: Seen, files: tuple[str, str], *, each_time: bool = False
    ) -> None:
        """Say that a target rests on its inputs, on its pointer, which was `seen`, and on its artifact.

        The `files` of the artifact were loaded after that. `each_time`: it is to be looked at by every build.
        """
        numbers = self._inputs(pointer.inputs, seen.now_ns)
        numbers.add(self.lines.unsure(seen.path) if each_time else self._file(seen))
        numbers.update(self._artifact(pointer.artifact, files, seen.now_ns))
        self.lines.own(pointer.target.name, numbers)

    def own_unsure(self, name: str, path: str) -> None:
        """Say that `name` is to be looked at by every build; `path` is where it would be."""
        self.lines.own(name, [self.lines.unsure(path)])

    def watch(self, path: str, stamp: Stamp | None, now_ns: int) -> None:
        """Watch a folder that leads to inputs, or the place where it was; `now_ns` is the clock before."""
        if stamp is None:
            self.lines.absent(path)
        else:
            self.lines.file(path, stamp, gate.EXISTS if is_racy(stamp, now_ns) else gate.SETTLED)

    def write(self, path: str, answer: str, recorded_ns: int) -> bool:
        """Write the gate; return whether it can be passed. What cannot be written is left out."""
        key = machine_key(self._places.home, make=True)
        if key is None:
            return False
        made = self.lines.gate(answer, recorded_ns)
        data = gate.render(made, roots=gate_roots(self._places), compiler=COMPILER, key=key)
        if data is None:
            return False
        from halo.files.atomic import replace_file

        replace_file(path, data)
        return self.lines.sure

    def _inputs(self, inputs: tuple[Input, ...], now_ns: int) -> set[int]:
        numbers: set[int] = set()
        for known in inputs:
            folder, slash, name = known.path.rpartition("/")
            if not slash:
                root, _, name = known.path.partition(":")
                folder = f"{root}:"
            found = self._folder(folder, now_ns)
            numbers.update(found.unsure)
            if found.path:
                numbers.add(self._input(known, found.path + name, now_ns))
        return numbers

    def _input(self, known: Input, path: str, now_ns: int) -> int:
        if known.stamp is None:
            return self.lines.absent(path) if known.kind == "absent" else self.lines.unsure(path)
        if not is_racy(known.stamp, now_ns):
            return self.lines.file(path, known.stamp, gate.SETTLED)
        return self.lines.file(path, known.stamp, _digest_of(known, path) or gate.UNSURE)

    def _folder(self, folder: str, now_ns: int) -> _Folder:
        """Return a folder of the tree, and watch it: one that becomes a link leads elsewhere."""
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = self._look_at(folder, now_ns)
        return found

    def _look_at(self, folder: str, now_ns: int) -> _Folder:
        root, _, relative = folder.partition(":")
        if not relative:
            base = self._roots.get(root)
            if base is None:  # an installed hook: no stat data tell whether it is the same
                return _Folder("", (self.lines.unsure(os.path.join(self._places.halo, folder)),))
            return _Folder(os.path.join(base, ""), ())
        above = self._folder(folder.rpartition("/")[0] if "/" in folder else f"{root}:", now_ns)
        if not above.path:
            return above
        path = above.path + relative.rpartition("/")[2]
        unsure = above.unsure
        if path not in self.lines:
            try:
                mode = os.lstat(path)
            except OSError:
                pass  # what is below it is absent, and watched as such
            else:
                if stat_modes.S_ISLNK(mode.st_mode):
                    unsure = (*unsure, self.lines.unsure(path))
                else:
                    self.watch(path, Stamp.of(mode), now_ns)
        return _Folder(path + os.sep, unsure)

    def _file(self, seen: Seen) -> int:
        if seen.stamp is None or seen.digest is None:
            return self.lines.unsure(seen.path)
        return self.lines.file(seen.path, seen.stamp, seen.digest)

    def _artifact(self, identity: str, files: tuple[str, str], now_ns: int) -> list[int]:
        """Add the files of an artifact; what may have been written since it was loaded is told by its id."""
        seen = [Seen(path, now_ns) for path in files]
        if any(each.digest != gate.SETTLED for each in seen):
            prompt, manifest = (
                _content_digest(each.path) if each.digest == gate.SETTLED else each.digest for each in seen
            )
            if prompt is None or manifest is None or id_of(prompt, manifest) != identity:
                return [self.lines.unsure(path) for path in files]
        return [self._file(each) for each in seen]


def _content_digest(path: str) -> str | None:
    try:
        return gate.content_digest(path)
    except OSError:
        return None


def _digest_of(known: Input, path: str) -> str | None:
    """Return what a gate compares an input by; None where it cannot."""
    if known.digest == EXISTS:
        return gate.EXISTS
    if known.digest == UNREADABLE:
        return None
    if not known.part:
        return known.digest
    # The gate knows no parts. It may vouch for the whole file if the part in it is the one that was read.
    try:
        with open(path, "rb") as file:
            data = file.read()
        part = projection(known.part)(data)
    except (HaloError, KeyError, OSError):
        return None
    return sha256(data) if sha256(part) == known.digest else None
