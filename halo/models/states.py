"""Saved model states: an artifact's static prefix, compiled into the model's own memory.

    <cache>/states/<key>.kv      what llama.cpp saved (0600, in a folder of 0700)
    <cache>/states/<key>.json    format, tokens, bytes, digest: what must hold before it is loaded

A state holds the static prefix and nothing else: no slot value, no history. It is derived; whoever finds it
missing or damaged computes it again. Both files change under one lock, and a reader loads from a hard link
of its own, so that what was verified is what is loaded.
"""

import contextlib
import errno
import os
import secrets
import shutil
import time

import msgspec

from halo.files.atomic import replace_file
from halo.files.canonical import canonical_json
from halo.files.digests import sha256, sha256_file
from halo.files.locks import FileLock, hold

FORMAT = 1

_LIMIT = 2 << 30  # bytes of states that are kept; the longest unused go first
_ABANDONED = 86_400  # seconds after which a temporary file has no owner any more
_PATIENCE = 30.0  # seconds to wait for the lock, which is held for milliseconds


class StateMeta(msgspec.Struct, frozen=True):
    """The side file. `rendered` is the SHA-256 of the static prefix as the chat template renders it."""

    format: int
    tokens: int
    size: int
    sha256: str
    rendered: str


class Loan(msgspec.Struct, frozen=True):
    """A verified state under a private `name` in the folder; `StateStore.discard` it after use."""

    name: str
    meta: StateMeta


def state_key(*, static_prefix: str, tools: object, model_sha256: str, engine: str) -> str:
    """Return the key of a state: all that it depends on.

    `tools` are those that the chat template renders (none in tool mode `schema`). The context's size is not
    in it: the state of a prefix is the same in a larger context.
    """
    return sha256(
        canonical_json(
            {
                "format": FORMAT,
                "static_prefix": sha256(static_prefix.encode()),
                "tools": tools,
                "model": model_sha256,
                "engine": engine,
            }
        )
    )


class StateStore:
    """The states of one cache. All methods raise OSError as the system does, and BusyError."""

    def __init__(self, cache: str) -> None:
        self.folder = os.path.join(cache, "states")

    def prepare(self) -> None:
        """Make the folder, for this user alone."""
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o700)

    def find(self, key: str) -> StateMeta | None:
        """Return the side file of a state whose other file is there in full length; not verified."""
        meta = self._meta(key)
        try:
            whole = meta is not None and os.path.getsize(self._path(key + ".kv")) == meta.size
        except FileNotFoundError:
            return None
        return meta if whole else None

    def is_recorded(self, key: str) -> bool:
        """Say whether there is, or should be, a state: its side file comes last and goes first."""
        return os.path.lexists(self._path(key + ".json"))

    def borrow(self, key: str) -> Loan | None:
        """Return the state under a private name, verified; None when it is not there or not whole."""
        name = self.temporary(key)
        with self._lock():
            meta = self._meta(key)
            if meta is None or not self._link(key + ".kv", name):
                return None
        path = self._path(name)
        if os.path.getsize(path) != meta.size or sha256_file(path) != meta.sha256:
            self.discard(name)
            return None
        os.utime(path)  # the link is the same file: this marks the state as used just now
        return Loan(name, meta)

    def put(self, key: str, name: str, *, tokens: int, size: int, rendered: str) -> None:
        """Make the temporary file `name`, to which the engine wrote `size` bytes, the state of `key`."""
        path = self._path(name)
        if os.path.getsize(path) != size:
            raise OSError(errno.ENOSPC, "the engine could not write all of the state", path)
        os.chmod(path, 0o600)
        meta = StateMeta(FORMAT, tokens, size, sha256_file(path), rendered)
        with self._lock():
            os.replace(path, self._path(key + ".kv"))
            replace_file(self._path(key + ".json"), msgspec.json.encode(meta), mode=0o600)
            self._prune(key)

    def temporary(self, key: str) -> str:
        """Return a new name in the folder for a file that is not a state yet, or a link to one."""
        return f"{key[:16]}.{os.getpid()}-{secrets.token_hex(6)}.tmp"

    def discard(self, name: str) -> None:
        """Remove a temporary file, which may not exist."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _lock(self) -> FileLock:
        return hold(self._path(".lock"), what="the store of model states", timeout=_PATIENCE)

    def _meta(self, key: str) -> StateMeta | None:
        try:
            with open(self._path(key + ".json"), "rb") as file:
                meta = msgspec.json.decode(file.read(), type=StateMeta)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None
        return meta if meta.format == FORMAT else None

    def _link(self, existing: str, name: str) -> bool:
        try:
            os.link(self._path(existing), self._path(name))
        except FileNotFoundError:
            return False
        except OSError:
            # A file system without hard links: a copy is as private.
            shutil.copyfile(self._path(existing), self._path(name))
        return True

    def _prune(self, keep: str) -> None:
        """Remove abandoned temporary files, and the longest unused states beyond the limit."""
        now, total = time.time(), 0
        states: list[tuple[float, str, int]] = []
        for entry in os.scandir(self.folder):
            stat = entry.stat()
            if entry.name.endswith(".kv"):
                states.append((stat.st_mtime, entry.name.removesuffix(".kv"), stat.st_size))
                total += stat.st_size
            elif entry.name.endswith(".tmp") and now - stat.st_mtime > _ABANDONED:
                self.discard(entry.name)
        for _, key, size in sorted(states):
            if total <= _LIMIT:
                break
            if key != keep:
                self.discard(key + ".json")
                self.discard(key + ".kv")
                total -= size
