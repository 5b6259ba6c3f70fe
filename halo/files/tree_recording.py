"""What was consulted through a tree, and with what result (imported through `tree`)."""

import sys
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from halo.errors import TreeError
from halo.files.digests import listing_digest, sha256
from halo.files.roots import Kind
from halo.files.stamps import Stamp
from halo.files.tree_base import DEFAULT_LIMIT, Entry, NotFound, Problem, Tree, problems_of, stamp_of

# Digests of inputs whose content played no part. No SHA-256 in hex is spelt like them.
EXISTS: Final = "exists"  # only `kind` was asked
UNREADABLE: Final = "unreadable"  # too large, no permission, leaves its root, a FIFO, a dangling link

InputKind = Literal["file", "dir", "absent"]


class Input(msgspec.Struct, frozen=True, array_like=True):
    """One path that was consulted.

    `digest` is that of a file's bytes or of a directory's listing, "" when absent, or `EXISTS` or
    `UNREADABLE`. While `stamp` is unchanged and not racy, so is the digest; without a stamp only `observe`
    can tell (except that an absent path is as it was while it is absent).
    """

    path: str
    kind: InputKind
    digest: str
    stamp: Stamp | None


class RecordingTree:
    """Passes everything through to `tree` and keeps what was consulted.

    `now_ns` (nanoseconds since the epoch) is asked once, before anything is read: `recorded_ns` is the
    moment from which `stamps.is_racy` counts.
    """

    def __init__(self, tree: Tree, now_ns: Callable[[], int]) -> None:
        self._tree = tree
        self._inputs: dict[str, Input] = {}
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

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return a directory's entries and record their digest."""
        stamp = stamp_of(self._tree, path)
        try:
            entries = self._tree.list(path)
        except TreeError as error:
            self._record_failure(path, "dir", stamp, error)
            raise
        if any(entry.link for entry in entries):
            stamp = None  # what a link leads to may change without a trace in the directory
        self._record(Input(path, "dir", _digest_of(entries), stamp))
        return entries

    def kind(self, path: str) -> Kind:
        """Say what `path` is and record that it exists, or that it does not."""
        stamp = stamp_of(self._tree, path)
        try:
            kind = self._tree.kind(path)
        except TreeError:
            self._record(Input(path, "file", UNREADABLE, stamp))
            raise
        self._record(_input_of_kind(path, kind, stamp))
        return kind

    def inputs(self) -> tuple[Input, ...]:
        """Return what was consulted so far, sorted by path."""
        return tuple(self._inputs[path] for path in sorted(self._inputs))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What listings left out so far."""
        return problems_of(self._tree)

    def _record_failure(
        self, path: str, wanted: Literal["file", "dir"], stamp: Stamp | None, error: TreeError
    ) -> None:
        if isinstance(error, NotFound):
            self._record(Input(path, "absent", "", None))
        else:
            self._record(_input_of_failure(self._tree, path, wanted, stamp))

    def _record(self, new: Input) -> None:
        """Keep `new` if it says more than what is known of the path.

        Where two observations contradict each other, the first stays: it no longer describes the tree, so
        the record is stale, as it should be when an input changed under the compiler.
        """
        known = self._inputs.get(new.path)
        if known is None or (known.kind == new.kind and known.digest == EXISTS):
            self._inputs[new.path] = new


def observe(tree: Tree, known: Input) -> Input:
    """Consult `tree` again about the path of `known`, in the way in which it was consulted then.

    The input is unchanged when kind and digest of the result equal those of `known`.
    """
    path = known.path
    stamp = stamp_of(tree, path)
    if known.digest == UNREADABLE and stamp is not None and stamp == known.stamp:
        return known  # it depends on the limit of the reader, which is not known here
    kind = _kind_or_other(tree, path)
    if known.digest == EXISTS or kind != known.kind or kind not in ("file", "dir"):
        return _input_of_kind(path, kind, stamp)
    try:
        # The limit of the first reader is not known, and it was met: any size may be compared.
        digest = _digest_of(tree.list(path)) if kind == "dir" else sha256(tree.read(path, sys.maxsize))
    except TreeError:
        return _input_of_failure(tree, path, "dir" if kind == "dir" else "file", stamp)
    return Input(path, known.kind, digest, stamp)


def _digest_of(entries: tuple[Entry, ...]) -> str:
    return listing_digest((entry.name, entry.kind) for entry in entries)


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
