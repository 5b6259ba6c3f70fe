"""Kernel locks between processes, released by the death of the holder.

The lock file is never deleted: a process that waits for a deleted file holds a lock that nobody else sees.
"""

import os
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from halo.errors import BusyError
from halo.files import ops

if TYPE_CHECKING:
    import filelock

_POLL = 0.01  # seconds between two tries while it waits


class FileLock:
    """An exclusive lock on the file at `path`, a context manager. Not re-entrant.

    `what` names what is locked in BusyError ("session 2026…"). `timeout` is in seconds: 0 does not wait,
    negative waits for ever. The process id of the holder is written into the file, for messages only.
    """

    def __init__(self, path: str, *, what: str, timeout: float = 0.0) -> None:
        self.path = path
        self.what = what
        self.timeout = timeout
        self._lock: filelock.BaseFileLock | None = None

    def acquire(self) -> None:
        """Take the lock. Raises BusyError after the timeout, OSError when the file cannot be locked."""
        import filelock

        if self._lock is not None:
            raise RuntimeError(f"this FileLock already holds {self.path}")
        ops.make_dirs(os.path.dirname(self.path))
        lock = filelock.FileLock(
            self.path,
            thread_local=False,  # a turn may end on another thread than it began
            preserve_lock_file=True,
            fallback_to_soft=False,  # a soft lock outlives its holder
            on_acquired=_write_pid,
        )
        try:
            lock.acquire(timeout=self.timeout, poll_interval=_POLL)
        except filelock.Timeout as error:
            raise self._busy() from error
        self._lock = lock

    def release(self) -> None:
        """Let the lock go, if it is held."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _busy(self) -> BusyError:
        holder = _read_pid(self.path)
        who = f"process {holder}" if holder is not None else "another process"
        waited = f" after {self.timeout:g} s" if self.timeout >= 0.1 else ""
        return BusyError(
            f"{self.what} is in use by {who}{waited}",
            file=self.path,
            hint="wait until it is done, or stop it: the lock goes with the process, whatever its end",
        )


def hold(path: str, *, what: str, timeout: float = 0.0) -> FileLock:
    """Return the lock on `path`, to be held by a `with` statement."""
    return FileLock(path, what=what, timeout=timeout)


def _write_pid(fd: int) -> None:
    # On a full disk the lock holds without it, and what makes room may need the lock.
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"%d\n" % os.getpid())


def _read_pid(path: str) -> int | None:
    """Return the id that the holder wrote; None when it has not yet, or the lock hides it (Windows)."""
    try:
        with open(path, "rb") as file:
            written = file.read(32)
    except OSError:
        return None
    return int(written) if written.strip().isdigit() else None
