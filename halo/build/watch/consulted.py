"""The inputs of many targets, held in memory: which of them a changed path concerns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from halo.build.freshness import stamp_at

if TYPE_CHECKING:
    from halo.files.stamps import Stamp
    from halo.files.tree import Input


class Touched(NamedTuple):
    """A tree path that changed. `moved`: it came, went, or is something else now, not only its content."""

    path: str
    moved: bool


def folder_of(path: str) -> str | None:
    """Return the tree path of the folder that holds `path`; None for a root."""
    root, _, relative = path.partition(":")
    if not relative:
        return None
    return f"{root}:{relative.rpartition('/')[0]}"


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders that hold `path`, up to its root."""
    folder = folder_of(path)
    while folder is not None:
        yield folder
        folder = folder_of(folder)


class Consulted:
    """Paths and their owners: an owner is the name of what was made from these inputs.

    The stamp in which each path was last seen is kept as well, for what no event tells. What an event costs
    depends on the owners it concerns.
    """

    def __init__(self) -> None:
        self._paths: dict[str, tuple[str, ...]] = {}  # by owner
        self._owners: dict[str, set[str]] = {}  # by path
        self._above: Counter[str] = Counter()  # folders with paths below them
        self._seen: dict[str, Stamp | None] = {}

    @property
    def paths(self) -> Iterable[str]:
        """Every path that somebody consulted."""
        return self._owners.keys()

    def put(self, owner: str, inputs: "Iterable[Input]") -> list[str]:
        """Replace what `owner` consulted; return the paths that nobody had consulted before."""
        stamps = {known.path: known.stamp for known in inputs}
        before, now = self._paths.get(owner, ()), tuple(stamps)
        if before == now:
            return []
        new = [path for path in now if path not in self._owners]
        for path in now:
            self._owners.setdefault(path, set()).add(owner)
        for path in new:
            # Not for a path that was seen already: whoever looked last knows best.
            self._seen[path] = stamps[path]
            self._above.update(folders_above(path))
        self._forget(owner, set(before) - stamps.keys())
        self._paths[owner] = now
        return new

    def drop(self, owner: str) -> None:
        """Forget an owner."""
        self._forget(owner, self._paths.pop(owner, ()))

    def _forget(self, owner: str, paths: Iterable[str]) -> None:
        for path in paths:
            owners = self._owners[path]
            owners.discard(owner)
            if not owners:
                del self._owners[path], self._seen[path]
                self._above.subtract(folders_above(path))

    def affected(self, touched: Iterable[Touched]) -> set[str]:
        """Return the owners that may no longer be fresh; all others are as fresh as they were."""
        found: set[str] = set()
        below: set[str] = set()
        for path, moved in touched:
            found |= self._owners.get(path, set())
            if moved:  # whoever listed the folder
                found |= self._owners.get(folder_of(path) or "", set())
            if self._above[path] > 0:
                below.add(path)
        if below:
            for path, owners in self._owners.items():
                if not below.isdisjoint(folders_above(path)):
                    found |= owners
        return found

    def look(self, touched: Iterable[Touched], roots: Mapping[str, str]) -> None:
        """Note how these paths and their folders stand now, before it is asked what that means."""
        for path in {place for each in touched for place in (each.path, folder_of(each.path))}:
            if path in self._seen:
                self._seen[path] = stamp_at(path, roots)

    def unseen(self, roots: Mapping[str, str]) -> list[Touched]:
        """Find the paths that are not as they were last seen. `roots` maps root names to absolute folders."""
        return [
            Touched(path, moved=True) for path, seen in self._seen.items() if stamp_at(path, roots) != seen
        ]
