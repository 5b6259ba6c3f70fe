"""The lines of a gate while it is made: one a path, and who rests on which."""

import os
from collections.abc import Iterable, Iterator

from halo.build import gate
from halo.files.stamps import Stamp


class GateLines:
    """Numbered lines, and the numbers that each owner rests on. A number stays that of its path."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._numbers: dict[str, int] = {}  # by path
        self._owners: dict[str, str] = {}  # numbers as text, by name
        self._free: list[int] = []

    @classmethod
    def of(cls, old: gate.Gate) -> "GateLines":
        """Take over what an earlier gate says."""
        lines = cls()
        lines._lines = list(old.lines)
        lines._numbers = {path_of(line): i for i, line in enumerate(old.lines) if line}
        lines._owners = dict(_named(owner) for owner in old.owners)
        lines._free = [i for i, line in enumerate(old.lines) if not line]
        return lines

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    @property
    def owners(self) -> Iterable[str]:
        """The names of all owners."""
        return self._owners.keys()

    @property
    def sure(self) -> bool:
        """Whether there is no line that only the pointers can vouch for."""
        return not any(line.startswith(gate.UNSURE) for line in self._lines)

    @property
    def ways(self) -> set[str]:
        """The folders that the paths lie in."""
        return {path.rpartition(os.sep)[0] for path in self._numbers}

    def resting_on(self, numbers: set[int]) -> set[str]:
        """Return the owners of any of these lines."""
        wanted = {str(number) for number in numbers}
        return {name for name, rests in self._owners.items() if not wanted.isdisjoint(rests.split())}

    def own(self, name: str, numbers: Iterable[int]) -> None:
        """Say what `name` rests on."""
        self._owners[name] = " ".join(map(str, sorted(numbers)))

    def file(self, path: str, stamp: Stamp, digest: str) -> int:
        """Say how a path stands; return the number of its line."""
        return self._put(path, f"{stamp.mtime_ns} {stamp.ctime_ns} {stamp.size} {stamp.inode} {digest}")

    def absent(self, path: str) -> int:
        """Say that a path is absent."""
        return self._put(path, "-")

    def unsure(self, path: str) -> int:
        """Say that nothing but a closer look can tell how a path stands."""
        return self._put(path, gate.UNSURE)

    def _put(self, path: str, said: str) -> int:
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = self._free.pop() if self._free else len(self._lines)
            if number == len(self._lines):
                self._lines.append("")
            self._lines[number] = f"{said}\t{path}"
            return number
        before = self._lines[number].partition("\t")[0]
        if before != said:
            self._lines[number] = f"{_both(before, said)}\t{path}"
        return number

    def drop(self, names: Iterable[str], changed: set[int]) -> None:
        """Forget owners, the `changed` lines, and lines that only these owners needed.

        A folder that leads to a line of somebody else is watched on.
        """
        mine = {number for name in names for number in self._owners.pop(name, "").split()}
        for rests in self._owners.values() if mine else ():
            mine.difference_update(rests.split())
        self._forget(changed)
        if mine:
            ways = self.ways
            self._forget(number for number in map(int, mine) if path_of(self._lines[number]) not in ways)

    def _forget(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self._lines[number]:
                del self._numbers[path_of(self._lines[number])]
                self._lines[number] = ""
                self._free.append(number)

    def gate(self, answer: str, recorded_ns: int) -> gate.Gate:
        """Make a gate of it."""
        owners = [f"{name} {rests}" for name, rests in self._owners.items()]
        return gate.Gate(answer, recorded_ns, self._lines, owners)


def path_of(line: str) -> str:
    """Return the path that a line is about."""
    return line.partition("\t")[2]


def _named(owner: str) -> tuple[str, str]:
    name, _, rests = owner.partition(" ")
    return name, rests


def _both(one: str, other: str) -> str:
    """Say what vouches for two observations of a path; they may have been made at different times."""
    stamp, _, digest = one.rpartition(" ")
    stamp_too, _, digest_too = other.rpartition(" ")
    if not stamp or stamp != stamp_too or gate.UNSURE in (digest, digest_too):
        return gate.UNSURE  # it changed in between
    if gate.SETTLED in (digest, digest_too):
        return f"{stamp} {gate.SETTLED}"
    stronger = {digest, digest_too} - {gate.EXISTS}
    return f"{stamp} {stronger.pop()}" if len(stronger) == 1 else gate.UNSURE


def unchanged_below(old: gate.Gate, changed: set[int], folders: set[str]) -> Iterator[str]:
    """Find the paths directly in `folders` whose lines are not among the `changed` ones."""
    for number, line in enumerate(old.lines):
        path = path_of(line)
        if path.rpartition(os.sep)[0] in folders and number not in changed:
            yield path
