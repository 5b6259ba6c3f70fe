"""What was consulted through a tree, and with what result (imported through `tree`)."""

import sys
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from halo.errors import TreeError
from halo.files.digests import listing_digest, sha256
from halo.files.roots import Kind
from halo.files.stamps import Stamp
from halo.files.tree_base import (
    DEFAULT_LIMIT,
    Entry,
    NotFound,
    Problem,
    Tree,
    join,
    parent,
    problems_of,
    stamp_of,
)

# Digests of inputs whose content played no part. No SHA-256 in hex is spelt like them.
EXISTS: Final = "exists"  # only `kind` was asked
UNREADABLE: Final = "unreadable"  # too large, no permission, leaves its root, a FIFO, a dangling link

InputKind = Literal["file", "dir", "absent"]


class Input(msgspec.Struct, frozen=True, array_like=True):
    """One path that was consulted.

    `digest` is that of a file's bytes or of a directory's listing, "" when absent, or `EXISTS` or
    `UNREADABLE`. While `stamp` is unchanged and not racy, so is the digest; without a stamp only `observe`
    can tell (except that an absent path is as it was while it is absent). `part` names the part of the file
    that was looked at, empty for all of it: the digest is that of the part.
    """

    path: str
    kind: InputKind
    digest: str
    stamp: Stamp | None
    part: str = ""


Project = Callable[[bytes], bytes]


class RecordingTree:
    """Passes everything through to `tree` and keeps what was consulted.

    `now_ns` (nanoseconds since the epoch) is asked once, before anything is read: `recorded_ns` is the
    moment from which `stamps.is_racy` counts.
    """

    def __init__(self, tree: Tree, now_ns: Callable[[], int]) -> None:
        self._tree = tree
        self._inputs: dict[tuple[str, str], Input] = {}
        self._missing: dict[str, bool] = {}
        self.recorded_ns = now_ns()

    def read(self, path: str, limit: int = DEFAULT_LIMIT) -> bytes:
        """Return a file's bytes and record their digest."""
        # The stamp is taken first: a write in between leaves an old stamp with a new digest, which costs
        # one needless comparison. The other way round, the write would never be noticed.
        stamp = stamp_of(self._tree, path)
        try:
            data = self._tree.read(path, limit)
        except TreeError as error:
            self._record_failure(path, "file", stamp, error)
            raise
        self._record(Input(path, "file", sha256(data), stamp))
        return data

    def read_part(self, path: str, part: str, project: Project) -> bytes:
        """Return what `project` makes of a file's bytes, and record the digest of that alone."""
        stamp = stamp_of(self._tree, path)
        try:
            data = project(self._tree.read(path))
        except TreeError as error:
            self._record_failure(path, "file", stamp, error)
            raise
        self._record(Input(path, "file", sha256(data), stamp, part))
        return data

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries and record their digest.

        What a link leads to may change without a trace in the directory: it is recorded on its own.
        """
        stamp = stamp_of(self._tree, path)
        try:
            entries = self._tree.list(path)
        except TreeError as error:
            self._record_failure(path, "dir", stamp, error)
            raise
        self._record(Input(path, "dir", _digest_of(entries), stamp))
        for entry in entries:
            if entry.link:
                self.kind(join(path, entry.name))
        return entries

    def kind(self, path: str) -> Kind:
        """Say what `path` is and record that it exists, or that it does not."""
        stamp = stamp_of(self._tree, path)
        try:
            kind = self._tree.kind(path)
        except TreeError:
            self._record(Input(path, "file", UNREADABLE, stamp))
            raise
        if kind == "absent":
            self._record_absent(path)
        else:
            self._record(_input_of_kind(path, kind, stamp))
        return kind

    def note(self, path: str, data: bytes) -> None:
        """Record what was consulted beside the tree; `path` has a root that no tree has."""
        self._record(Input(path, "file", sha256(data), None))

    def inputs(self) -> tuple[Input, ...]:
        """Return what was consulted so far, sorted by path, without what follows from the rest.

        That is the existence of a file of which something was read, and of a folder in which something was
        found: neither can change without the other.
        """
        implied: set[str] = set()
        for path, part in self._inputs:
            known = self._inputs[path, part]
            if known.kind == "absent" or known.digest == UNREADABLE:
                continue
            if part:
                implied.add(path)
            above = parent(path)
            while above is not None and above not in implied:
                implied.add(above)
                above = parent(above)
        return tuple(
            known
            for key in sorted(self._inputs)
            if (known := self._inputs[key]).digest != EXISTS or known.path not in implied
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far."""
        return problems_of(self._tree)

    def _record_failure(
        self, path: str, wanted: Literal["file", "dir"], stamp: Stamp | None, error: TreeError
    ) -> None:
        if isinstance(error, NotFound):
            self._record_absent(path)
        else:
            self._record(_input_of_failure(self._tree, path, wanted, stamp))

    def _record_absent(self, path: str) -> None:
        """Record what is missing by the outermost folder that is: nothing below it can be there before it."""
        while (above := parent(path)) is not None and self._is_missing(above):
            path = above
        self._record(Input(path, "absent", "", None))

    def _is_missing(self, folder: str) -> bool:
        """Say whether a folder (no root) is absent; each is looked at once."""
        if folder.endswith(":"):
            return False
        if folder not in self._missing:
            self._missing[folder] = _kind_or_other(self._tree, folder) == "absent"
        return self._missing[folder]

    def _record(self, new: Input) -> None:
        """Keep `new` if it says more than what is known of the path.

        Where two observations contradict each other, the first stays: it no longer describes the tree, so
        the record is stale, as it should be when an input changed under the compiler.
        """
        key = (new.path, new.part)
        known = self._inputs.get(key)
        if known is None or (known.kind == new.kind and known.digest == EXISTS):
            self._inputs[key] = new


def read_part(tree: Tree, path: str, part: str, project: Project) -> bytes:
    """Return what `project` makes of a file; a recording tree records that part alone.

    Who consults a part does not depend on the rest: an edit there leaves it fresh.
    """
    if isinstance(tree, RecordingTree):
        return tree.read_part(path, part, project)
    return project(tree.read(path))


def note(tree: Tree, path: str, data: bytes) -> None:
    """Record in a recording tree what was consulted beside it, such as an installed hook."""
    if isinstance(tree, RecordingTree):
        tree.note(path, data)


def observe(tree: Tree, known: Input, project: Project | None = None, limit: int = sys.maxsize) -> Input:
    """Consult `tree` again about the path of `known`, in the way in which it was consulted then.

    The input is unchanged when kind and digest of the result equal those of `known`. `project` is needed
    for an input that has a part; what it raises is passed on. A file with more than `limit` bytes is
    recorded as unreadable.
    """
    path = known.path
    if project is not None and _kind_or_other(tree, path) == "file":
        stamp = stamp_of(tree, path)
        return Input(path, "file", sha256(project(tree.read(path))), stamp, known.part)
    stamp = stamp_of(tree, path)
    if known.digest == UNREADABLE and stamp is not None and stamp == known.stamp:
        return known  # it depends on the limit of the reader, which is not known here
    kind = _kind_or_other(tree, path)
    if known.digest == EXISTS or kind != known.kind or kind not in ("file", "dir"):
        return _input_of_kind(path, kind, stamp)
    try:
        # The limit of the first reader is not known, and it was met: any size may be compared.
        digest = _digest_of(tree.list(path)) if kind == "dir" else sha256(tree.read(path, limit))
    except TreeError:
        return _input_of_failure(tree, path, "dir" if kind == "dir" else "file", stamp)
    return Input(path, known.kind, digest, stamp)


def _digest_of(entries: tuple[Entry, ...]) -> str:
    """Digest a listing; what has become a link is not what it was, for who leaves links out."""
    return listing_digest((e.name, f"{e.kind} link" if e.link else e.kind) for e in entries)


def _kind_or_other(tree: Tree, path: str) -> Kind:
    try:
        return tree.kind(path)
    except TreeError:
        return "other"  # may not even be looked at: recorded as unreadable


def _input_of_kind(path: str, kind: Kind, stamp: Stamp | None) -> Input:
    if kind == "absent":
        return Input(path, "absent", "", None)
    if kind == "other":
        # Its stamp would be that of the thing a link fails to lead to, so `observe` has to look.
        return Input(path, "file", UNREADABLE, None)
    return Input(path, kind, EXISTS, stamp)


def _input_of_failure(tree: Tree, path: str, wanted: Literal["file", "dir"], stamp: Stamp | None) -> Input:
    """Describe what could not be read or listed: it is something else, or it is out of reach."""
    kind = _kind_or_other(tree, path)
    return Input(path, wanted, UNREADABLE, stamp) if kind == wanted else _input_of_kind(path, kind, stamp)
