"""What the system tells of changes in a set of folders (watchfiles, which wraps inotify and its like)."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from halo.errors import StartError

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

# Milliseconds. An editor's save is over within a step; a longer burst is cut at the debounce.
_STEP = 10
_DEBOUNCE = 50
# A batch of so many paths is a checkout or the like: it is waited for until nothing comes for a while, so
# that each target is built once, but no longer than so many rounds of a debounce.
_MANY = 20
_QUIET = 60
_ROUNDS = 40
_ATTEMPTS = 5
_POLLING = 300  # between two looks at every folder, where the system tells nothing

_MODIFIED = 2  # the content alone


class Notice(NamedTuple):
    """An absolute path that changed. `moved`: it came or went."""

    path: str
    moved: bool


class Noticed(NamedTuple):
    """A batch of notices. Not `sure`: the system has lost some, so everything must be looked at."""

    notices: set[Notice]
    sure: bool = True


class Notices:
    """Notices of one set of folders. `polling` looks at them again and again instead of being told.

    `deep` watches whole trees, which costs nothing on systems that are not Linux.
    """

    def __init__(self, *, polling: bool = False, deep: bool = False) -> None:
        self._polling = polling
        self.deep = deep
        self._source: RustNotify | None = None
        self._kept = Noticed(set())

    def open(self, folders: Iterable[str]) -> None:
        """Watch these folders from now on; what was told of the ones before stays to be read.

        Raises `StartError` where the system does not allow for so many.
        """
        old, self._source = self._source, self._start(sorted(folders))
        if old is not None:
            self._kept = _joined(self._kept, _read(old, _STEP))
            old.close()

    def wait(self, seconds: float) -> Noticed:
        """Return what changed; nothing after `seconds` without a change. A signal is a `KeyboardInterrupt`.

        After what is not sure the folders have to be opened again.
        """
        if self._source is None:
            raise AssertionError("nothing is watched")
        found, self._kept = self._kept, Noticed(set())
        if not found.notices and found.sure:
            found = _read(self._source, max(int(seconds * 1000), 1))
        rounds = 0
        while len(found.notices) >= _MANY and rounds < _ROUNDS:
            more = _read(self._source, _QUIET)
            if more == Noticed(set()):
                break
            found = _joined(found, more)
            rounds += 1
        if not found.sure:
            self.close()  # it would say so for ever
        return found

    def close(self) -> None:
        """Stop watching."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _start(self, folders: list[str]) -> "RustNotify":
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

        for _ in range(_ATTEMPTS):
            # What may not be listed is no help; what vanishes is told by the folder above it.
            there = [folder for folder in folders if os.access(folder, os.R_OK | os.X_OK)]
            try:
                return RustNotify(there, False, self._polling, _POLLING, self.deep, False)
            except (FileNotFoundError, PermissionError):
                continue  # it has just vanished
            except (OSError, WatchfilesRustInternalError) as error:
                raise _limited(str(error), len(there)) from None
        raise _limited("they come and go all the time", len(folders))


def _limited(why: str, number: int) -> StartError:
    return StartError(
        f"{number} folders cannot be watched: {why.partition(' about ')[0]}",
        hint="raise fs.inotify.max_user_watches or max_user_instances (sysctl), "
        "or set WATCHFILES_FORCE_POLLING=1, which needs neither but is slower",
    )


def _read(source: "RustNotify", timeout: int) -> Noticed:
    from watchfiles._rust_notify import WatchfilesRustInternalError

    try:
        found = source.watch(_DEBOUNCE, _STEP, timeout, None)
    except WatchfilesRustInternalError:
        return Noticed(set(), sure=False)  # such as a name that is not UTF-8
    if found == "signal":
        raise KeyboardInterrupt
    if isinstance(found, str):
        return Noticed(set())
    return Noticed({Notice(path, kind != _MODIFIED) for kind, path in found})


def _joined(one: Noticed, other: Noticed) -> Noticed:
    return Noticed(one.notices | other.notices, one.sure and other.sure)
