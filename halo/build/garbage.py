"""Decides what `halo gc` removes: nothing here looks at a disk or a clock.

An artifact goes when nothing mentions it and nobody began to use it for a while. To be mentioned it is enough
that a pointer, a session or a run holds its id, or the twelve digits with which that begins or ends: whatever
looks like a reference is one, in a torn or damaged line too. Where something cannot be read at all, it may
refer to anything, so every artifact stays.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

# For so long a build or a turn may have an artifact without having written down that it has.
YOUNG_NS = 3_600_000_000_000

_PART = 12  # digits by which Halo names an artifact in its messages
_LONGEST = 128  # digits of a run that are looked at as one
_DIGEST = 64  # digits of a SHA-256, which is no artifact's id
_RUN = re.compile(rb"[0-9a-f]{%d,}" % _PART)
_OPEN_RUN = re.compile(rb"[0-9a-f]+\Z")

_ID = re.compile(r"[0-9a-f]{40}\Z")
# What `halo.files.atomic` writes under until it is whole, and what the store moves out of its way.
_TEMPORARY = re.compile(r"\.(.{1,40})\.[0-9]+-[0-9a-f]{12}\.tmp\Z", re.DOTALL)
_DAMAGED = re.compile(r"([0-9a-f]{40})\.damaged\.[0-9]+\Z")


class Item(NamedTuple):
    """Something that Halo made: its path, its size in bytes, and when it was last changed or used (ns)."""

    path: str
    bytes: int
    used_ns: int


class Found(NamedTuple):
    """What lies there.

    `artifacts` by id; `leftovers` of builds that did not come to an end; `orphans`: pointers and gates of
    what no longer exists; `folders` of pointers that are empty; `strange`: what Halo did not make.
    """

    artifacts: dict[str, Item]
    leftovers: tuple[Item, ...] = ()
    orphans: tuple[Item, ...] = ()
    folders: tuple[Item, ...] = ()
    strange: tuple[str, ...] = ()


class Plan(NamedTuple):
    """What goes; why the rest of the artifacts stays: mentioned, young, or because of what is `unread`.

    `kept` are the ids of the artifacts that stay.
    """

    artifacts: dict[str, Item]
    kept: tuple[str, ...]
    leftovers: tuple[Item, ...]
    orphans: tuple[Item, ...]
    folders: tuple[Item, ...]
    mentioned: int
    young: int
    unread: tuple[str, ...]
    strange: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """What is freed."""
        return sum(i.bytes for i in (*self.artifacts.values(), *self.leftovers, *self.orphans))


def is_artifact_id(name: str) -> bool:
    """Tell whether a folder of this name may be an artifact."""
    return _ID.match(name) is not None


def leftover_of(name: str) -> str | None:
    """Return the name that a leftover was to have, in 40 characters at most; None for another thing."""
    match = _TEMPORARY.match(name) or _DAMAGED.match(name)
    return match[1] if match else None


def decide(found: Found, mentioned: set[str], unread: Iterable[str], now_ns: int) -> Plan:
    """Decide what goes. `unread`: what might mention artifacts and could not be read."""
    blind = tuple(unread)
    old = {identity: item for identity, item in found.artifacts.items() if is_old(item.used_ns, now_ns)}
    free = {} if blind else {k: item for k, item in old.items() if k not in mentioned}
    return Plan(
        artifacts=free,
        kept=tuple(sorted(found.artifacts.keys() - free.keys())),
        leftovers=tuple(item for item in found.leftovers if is_old(item.used_ns, now_ns)),
        orphans=found.orphans,
        folders=tuple(item for item in found.folders if is_old(item.used_ns, now_ns)),
        mentioned=len(found.artifacts.keys() & mentioned),
        young=len(found.artifacts.keys() - old.keys() - mentioned),
        unread=blind,
        strange=found.strange,
    )


def is_old(used_ns: int, now_ns: int) -> bool:
    """Tell whether something has been left alone for long enough; what is of the future has not."""
    return now_ns - used_ns > YOUNG_NS


class Mentions:
    """Collects which of `ids` are mentioned in what is read, block by block."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.found: set[str] = set()
        self._by_part: dict[bytes, set[str]] = {}
        for identity in ids:
            for part in (identity[:_PART], identity[-_PART:]):
                self._by_part.setdefault(part.encode(), set()).add(identity)

    def read(self, blocks: Iterable[bytes]) -> None:
        """Read one text. A mention may lie across two blocks."""
        rest = b""
        for block in blocks:
            data = rest + block
            open_run = _OPEN_RUN.search(data, max(len(data) - _LONGEST, 0))
            # A longer run is looked at in parts that overlap.
            keep = 0 if open_run is None else min(len(open_run[0]), _LONGEST - 1)
            self._look(data[: len(data) - keep] if keep < _LONGEST - 1 else data)
            rest = data[len(data) - keep :]
        self._look(rest)

    def _look(self, data: bytes) -> None:
        for match in _RUN.finditer(data):
            run = match[0]
            if len(run) == _DIGEST:
                continue
            for at in range(len(run) - _PART + 1):
                self.found |= self._by_part.get(run[at : at + _PART], set())
