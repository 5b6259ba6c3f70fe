"""Saved model states: an artifact's static prefix, compiled into the model's own memory.

    <cache>/states/<key>.kv      what llama.cpp saved (0600, in a folder of 0700)
    <cache>/states/<key>.json    format, tokens, bytes, digest: what must hold before it is loaded

A state holds the static prefix and nothing else: no slot value, no history. It is derived; whoever finds it
missing or damaged computes it again. Both files change under one lock, and a reader loads from a hard link
of its own, so that what was verified is what is loaded.

The cache belongs to the user, and its states to the workspaces that use them: the side file names those, so
that `halo gc` in one of them knows which states are its own.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from typing import NamedTuple

import msgspec

from halo.errors import BusyError
from halo.files.atomic import replace_file
from halo.files.canonical import canonical_json
from halo.files.digests import sha256, sha256_file
from halo.files.locks import FileLock, hold

FORMAT = 1

_LIMIT = 2 << 30  # bytes of states that are kept; the longest unused go first
_ABANDONED = 86_400  # seconds after which a temporary file has no owner any more
_PATIENCE = 30.0  # seconds to wait for the lock, which is held for milliseconds
_YOUNG = 3_600  # seconds for which a state is kept that nothing refers to (yet)

_FILE = re.compile(r"([0-9a-f]{64})\.(?:kv|json)\Z")


class StateMeta(msgspec.Struct, frozen=True):
    """The side file. `rendered` is the SHA-256 of the static prefix as the chat template renders it.

    `workspaces` are the real paths of those that use the state; empty where an earlier version saved it.
    """

    format: int
    tokens: int
    size: int
    sha256: str
    rendered: str
    workspaces: tuple[str, ...] = ()


class Swept(NamedTuple):
    """The keys of states that `StateStore.sweep` removed, and their size in bytes."""

    keys: tuple[str, ...]
    bytes: int


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

    def __init__(self, cache: str, workspace: str = "") -> None:
        """`workspace` is the path of the workspace that uses it, to be noted with every state."""
        self.folder = os.path.join(cache, "states")
        self._workspace = os.path.realpath(workspace) if workspace else ""

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
        if meta is None or not whole:
            return None
        if self._workspace and self._workspace not in meta.workspaces:
            with contextlib.suppress(OSError, BusyError), self._lock():
                self._note(key)
        return meta

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
            self._note(key)
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
            before = self._meta(key)
            users = set(before.workspaces) if before is not None else set()
            os.replace(path, self._path(key + ".kv"))
            self._write_meta(key, meta, (users | {self._workspace}) - {""})
            self._prune(key)

    def is_used(self) -> bool:
        """Tell whether any state is noted for this workspace."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return False
        keys = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return any(meta is not None and self._workspace in meta.workspaces for meta in map(self._meta, keys))

    def sweep(self, live: frozenset[str] | None, *, dry: bool = False) -> Swept:
        """Remove the states that no workspace uses any more; with `dry` only say which those are.

        This workspace uses those with a key in `live`; None: nobody knows, so it uses all that it saved.
        Others use theirs as long as they exist. States that nobody is noted for, and those that were saved or
        used within the hour, stay. Links and files of other names are left alone.
        """
        if not os.path.isdir(self.folder):
            return Swept((), 0)
        with contextlib.nullcontext() if dry else self._lock():
            return self._sweep(live, dry=dry)

    def _sweep(self, live: frozenset[str] | None, *, dry: bool) -> Swept:
        gone, size, now = [], 0, time.time()
        with os.scandir(self.folder) as entries:
            files = {e.name: e.stat(follow_symlinks=False) for e in entries if _FILE.match(e.name)}
        for key in sorted({name.partition(".")[0] for name in files}):
            own = [files[name] for name in (f"{key}.kv", f"{key}.json") if name in files]
            young = any(now - found.st_mtime <= _YOUNG for found in own)
            if young or not all(stat.S_ISREG(found.st_mode) for found in own):
                continue
            users = self._users(key, live) if len(own) == 2 else ()  # half of one is no state
            if users == ():
                gone.append(key)
                size += sum(found.st_size for found in own)
                if not dry:
                    self.discard(key + ".json")
                    self.discard(key + ".kv")
        return Swept(tuple(gone), size)

    def _users(self, key: str, live: frozenset[str] | None) -> tuple[str, ...] | None:
        """Return the workspaces that use a state; None where nobody can tell."""
        meta = self._meta(key)
        if meta is None or not meta.workspaces:
            return None
        return tuple(
            workspace
            for workspace in meta.workspaces
            if os.path.isdir(os.path.join(workspace, ".halo"))
            and (workspace != self._workspace or live is None or key in live)
        )

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

    def _write_meta(self, key: str, meta: StateMeta, workspaces: set[str]) -> None:
        noted = msgspec.structs.replace(meta, workspaces=tuple(sorted(workspaces)))
        replace_file(self._path(key + ".json"), msgspec.json.encode(noted), mode=0o600)

    def _note(self, key: str) -> None:
        """Note that this workspace uses a state; the lock is held. It may be gone by now.

        Where that cannot be written the worst is that the state is removed and computed again.
        """
        meta = self._meta(key)
        if meta is not None and self._workspace and self._workspace not in meta.workspaces:
            with contextlib.suppress(OSError):
                self._write_meta(key, meta, {*meta.workspaces, self._workspace})

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
