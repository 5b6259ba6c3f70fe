"""The Tree: a sync, read-only view of named roots, in bytes. This is the module to import from.

`DiskTree`, `MemoryTree`, `OverlayTree` and `git_tree.GitTree` hold files; `RecordingTree` wraps any of them
and keeps what was consulted. Parts: `tree_base` (paths, protocol), `tree_disk`, `tree_memory`,
`tree_recording`.
"""

from halo.files.roots import Kind
from halo.files.tree_base import (
    DEFAULT_LIMIT,
    Entry,
    NotFound,
    Problem,
    Tree,
    join,
    problems_of,
    split,
    stamp_of,
)
from halo.files.tree_disk import DiskTree
from halo.files.tree_memory import MemoryTree, OverlayTree
from halo.files.tree_recording import EXISTS, UNREADABLE, Input, RecordingTree, note, observe, read_part

__all__ = [
    "DEFAULT_LIMIT",
    "EXISTS",
    "UNREADABLE",
    "DiskTree",
    "Entry",
    "Input",
    "Kind",
    "MemoryTree",
    "NotFound",
    "OverlayTree",
    "Problem",
    "RecordingTree",
    "Tree",
    "join",
    "note",
    "observe",
    "problems_of",
    "read_part",
    "split",
    "stamp_of",
]
