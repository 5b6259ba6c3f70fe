"""Trees that are not on disk: a mapping, and changes laid over another tree (imported through `tree`)."""

from collections.abc import Mapping

from halo.errors import TreeError
from halo.files.roots import Kind
from halo.files.stamps import Stamp
from halo.files.tree_base import (
    DEFAULT_LIMIT,
    Entry,
    Problem,
    Tree,
    absent,
    not_a_directory,
    not_a_file,
    parent,
    problems_of,
    split,
    stamp_of,
    too_large,
)


class MemoryTree:
    """Files given as a mapping from tree paths to bytes; directories are those that the paths imply.

    Raises TreeError when a path is malformed, or both a file and a directory.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._dirs: dict[str, dict[str, Kind]] = {}
        for path in files:
            kind: Kind = "file"
            child, directory = path, parent(path)
            if directory is None:
                raise not_a_file(path)
            while directory is not None:
                name = child.removeprefix(directory).removeprefix("/")
                self._dirs.setdefault(directory, {})[name] = kind
                kind = "dir"
                child, directory = directory, parent(directory)
        for path in self._dirs.keys() & self._files.keys():
            raise TreeError("is given both as a file and as a directory", file=path, hint="drop one of them")

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes."""
        data = self._files.get(path)
        if data is None:
            raise not_a_file(path) if self.kind(path) == "dir" else absent(path)
        if len(data) > limit:
            raise too_large(path, limit)
        return data

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries."""
        names = self._dirs.get(path)
        if names is None:
            raise not_a_directory(path) if self.kind(path) == "file" else absent(path)
        return tuple(Entry(name, kind) for name, kind in sorted(names.items()))

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        split(path)  # a malformed path is an error here as it is on disk
        return "file" if path in self._files else "dir" if path in self._dirs else "absent"


class OverlayTree:
    """Another tree with `changes` laid over it: bytes replace or add a file, None deletes a path.

    Changes win over what they meet: a file where the base has a directory hides the directory, None deletes
    a directory whole, and the deletion of its last file removes a directory. Paths are taken by their
    names: what the base reaches through a symlink is not changed with the link's target.
    """

    def __init__(self, base: Tree, changes: Mapping[str, bytes | None]) -> None:
        self._base = base
        self._changed = frozenset(changes)
        self._written = MemoryTree({path: data for path, data in changes.items() if data is not None})
        # Directories of the base from which something below is taken away or replaced.
        self._thinned = frozenset(above for path in changes for above in _ancestors(path))

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes."""
        if self._written.kind(path) != "absent":
            return self._written.read(path, limit)
        if self.kind(path) == "absent":
            raise absent(path)
        return self._base.read(path, limit)

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries, the base's and the changes' merged."""
        kind = self.kind(path)
        if kind == "absent":
            raise absent(path)
        if kind != "dir":
            raise not_a_directory(path)
        return self._merged(path)

    def kind(self, path: str) -> Kind:
        """Say what `path` is."""
        written = self._written.kind(path)
        if written != "absent":
            return written
        if self._hidden(path):
            return "absent"
        kind = self._base.kind(path)
        if kind == "dir" and path in self._thinned and not self._merged(path) and self._base.list(path):
            return "absent"  # its last file was deleted
        return kind

    def stamp(self, path: str) -> Stamp | None:
        """Return the base's stat data where the base alone decides, otherwise None."""
        untouched = path not in self._thinned and not self._hidden(path)
        return stamp_of(self._base, path) if untouched else None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings of the base left out so far."""
        return problems_of(self._base)

    def _hidden(self, path: str) -> bool:
        """Say whether a change of `path` or of a directory above it hides what the base has there."""
        return path in self._changed or not self._changed.isdisjoint(_ancestors(path))

    def _merged(self, path: str) -> tuple[Entry, ...]:
        """Merge the listings of a directory that one of the two trees has."""
        entries: dict[str, Entry] = {}
        if not self._hidden(path) and self._base.kind(path) == "dir":
            prefix = path if path.endswith(":") else path + "/"
            for entry in self._base.list(path):
                child = prefix + entry.name
                # Only directories that lose something are looked into, so that a listing stays cheap.
                gone = child in self._changed or (child in self._thinned and self.kind(child) == "absent")
                if not gone:
                    entries[entry.name] = entry
        if self._written.kind(path) == "dir":
            entries |= {entry.name: entry for entry in self._written.list(path)}
        return tuple(entries[name] for name in sorted(entries))


def _ancestors(path: str) -> list[str]:
    above: list[str] = []
    directory = parent(path)
    while directory is not None:
        above.append(directory)
        directory = parent(directory)
    return above
