"""Stat data that stands for a file's content until it changes, as in git's index.

The freshness check of a no-op build imports this module and little else, so it must stay small.
"""

import os
from typing import Self

import msgspec

# How long before it was recorded a file must have rested for its stamp to be trusted, in nanoseconds.
# FAT keeps mtimes to 2 s, NFS and HFS+ to 1 s, kernels to one tick.
RACY_NS = 2_000_000_000


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """What changes when a file does: times in nanoseconds since the epoch, size in bytes, inode.

    ctime is there because `cp -p`, `rsync -t` and `os.utime` set an old mtime; the inode because a rename
    into place brings an old file's times along.
    """

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, st: os.stat_result) -> Self:
        """Take the stamp out of a stat result."""
        return cls(st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_ino)


def stamp(path: str) -> Stamp | None:
    """Return the stamp of the file or directory at `path` (symlinks followed), None when there is none.

    Raises OSError for anything else, such as a directory that may not be searched.
    """
    try:
        return Stamp.of(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_racy(stamp: Stamp, recorded_ns: int) -> bool:
    """Say whether a write after `recorded_ns` (ns since the epoch) could have left this very stamp.

    True when the file changed within `RACY_NS` before it was recorded, and for stamps in the future, which
    a clock that was set back leaves behind. A racy file is compared by content.
    """
    return max(stamp.mtime_ns, stamp.ctime_ns) > recorded_ns - RACY_NS
