"""Looks for garbage below `.halo/`, and removes what `halo.build.garbage` decided.

Links are never followed, and nothing is removed but what Halo made, name by name. An artifact is first
renamed and then looked at once more: whoever began to use it meanwhile has marked it (`Store.keep`) and gets
it back, and who comes later finds nothing there and publishes it anew.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from halo.build.builder import Builder
from halo.build.garbage import Found, Item, Mentions, Plan, decide, is_artifact_id, is_old, leftover_of
from halo.build.store import FILES
from halo.build.targets import default_targets
from halo.errors import ArtifactError
from halo.files.locks import FileLock, hold
from halo.files.regular import refuse_links
from halo.workspace.locate import BUNDLE

# Folders below `.halo/` whose files may mention artifacts. `build/` has pointers; its gates follow from them.
_MENTIONING = ("sessions", "evo", "batch", "traces")
_BLOCK = 1 << 20  # bytes a read
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def sweep_lock(builder: Builder) -> FileLock:
    """Return the lock that one sweep at a time holds. Raises OSError for a link in its place."""
    build = builder.pointers.folder
    refuse_links(build, "gc.lock")
    return hold(os.path.join(build, "gc.lock"), what="halo gc in this workspace")


def plan_sweep(builder: Builder) -> Plan:
    """Look at everything and decide. Raises `LayerError` for settings that say which targets there are."""
    found = _look(builder)
    skipped = {item.path for item in found.orphans}
    mentions = Mentions(found.artifacts)
    unread = [str(problem) for problem in _read_all(builder.places.halo, mentions, skipped)]
    return decide(found, mentions.found, unread, builder.now_ns())


def carry_out(builder: Builder, plan: Plan) -> Plan:
    """Remove what the plan names; return what was removed, which is less if something came into use."""
    halo = builder.places.halo
    refuse_links(halo, "build", "artifacts")
    orphans = tuple(item for item in plan.orphans if _unlink(item.path))
    gone = {k: item for k, item in plan.artifacts.items() if _remove_artifact(builder, k, item)}
    leftovers = tuple(item for item in plan.leftovers if _remove_leftover(builder, item))
    for item in plan.folders:
        with suppress(OSError):  # not empty any more
            os.rmdir(item.path)
    kept = tuple(sorted({*plan.kept, *(plan.artifacts.keys() - gone.keys())}))
    return plan._replace(artifacts=gone, kept=kept, leftovers=leftovers, orphans=orphans)


def _look(builder: Builder) -> Found:
    artifacts: dict[str, Item] = {}
    leftovers, strange = [], []
    for entry in _entries(builder.store.folder):
        try:
            item = _item_of_folder(entry)
        except FileNotFoundError:
            continue  # a build has just given it its name
        leftover = leftover_of(entry.name)
        if item is not None and is_artifact_id(entry.name) and _names(entry.path) == set(FILES):
            artifacts[entry.name] = item
        elif item is not None and leftover is not None and is_artifact_id(leftover):
            leftovers.append(item)
        else:
            strange.append(entry.path)
    below = list(_below(builder.pointers.folder))
    files = (entry.path for entry in (*_entries(builder.places.halo), *below) if leftover_of(entry.name))
    leftovers += filter(None, map(_file, files))
    folders = (entry.path for entry in below if entry.is_dir(follow_symlinks=False))
    empty = tuple(filter(None, (_file(path, folder=True) for path in folders if not _names(path))))
    return Found(artifacts, tuple(leftovers), _orphans(builder), empty, tuple(sorted(strange)))


def _file(path: str, *, folder: bool = False) -> Item | None:
    """Return what is known of a regular file, or a folder; None for another thing, and what has just gone."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    wanted = stat.S_ISDIR(found.st_mode) if folder else stat.S_ISREG(found.st_mode)
    return Item(path, 0 if folder else found.st_size, found.st_mtime_ns) if wanted else None


def _orphans(builder: Builder) -> tuple[Item, ...]:
    """Find pointers and gates of what no longer exists; of all targets where a bundle took their place."""
    known = set() if builder.bundle is not None else _target_names(builder)
    return tuple(filter(None, map(_file, sorted(builder.pointers.orphans(known)))))


def _target_names(builder: Builder) -> set[str]:
    return {target.name for target in default_targets(builder.places.tree()).targets}


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _names(folder: str) -> set[str]:
    return {entry.name for entry in _entries(folder)}


def _below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield everything below a folder; links are entries like others."""
    left = [folder]
    while left:
        for entry in _entries(left.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)


def _item_of_folder(entry: os.DirEntry[str]) -> Item | None:
    """Return what is known of a folder with no other files than an artifact's; None for another thing.

    Raises FileNotFoundError for one that has just gone.
    """
    if not entry.is_dir(follow_symlinks=False):
        return None
    try:
        size, used = 0, entry.stat(follow_symlinks=False).st_mtime_ns
        for file in _entries(entry.path):
            found = file.stat(follow_symlinks=False)
            if file.name not in FILES or not stat.S_ISREG(found.st_mode):
                return None
            size, used = size + found.st_size, max(used, found.st_mtime_ns)
    except FileNotFoundError:
        raise
    except OSError:
        return None  # what cannot be looked at is left alone, and said
    return Item(entry.path, size, used)


def _read_all(halo: str, mentions: Mentions, skipped: set[str]) -> Iterator[OSError]:
    """Read everything that may mention an artifact; yield what could not be read."""
    yield from _read_file(os.path.join(halo, BUNDLE), mentions)
    pointers = os.path.join(halo, "build")
    for name in ("build", *_MENTIONING):
        folder = os.path.join(halo, name)
        for problem, path in _files(folder):
            if problem is not None:
                yield problem
            elif folder != pointers or (_is_pointer(path, pointers) and path not in skipped):
                yield from _read_file(path, mentions)


def _is_pointer(path: str, build: str) -> bool:
    return path.endswith(".json") and os.path.dirname(path) != build


def _files(folder: str) -> Iterator[tuple[OSError | None, str]]:
    """Yield the files below a folder; what may lead elsewhere, or cannot be listed, is a problem."""
    left = [folder]
    while left:
        path = left.pop()
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                left += (os.path.join(path, name) for name in os.listdir(path))
        except FileNotFoundError:
            continue  # nothing there, or moved on meanwhile
        except OSError as error:
            yield error, path
            continue
        if stat.S_ISREG(mode):
            yield None, path
        elif not stat.S_ISDIR(mode):
            yield OSError(errno.ELOOP, "a link or a device, which is not read", path), path


def _read_file(path: str, mentions: Mentions) -> Iterator[OSError]:
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFE)
    except FileNotFoundError:
        return
    except OSError as error:
        yield error
        return
    try:
        mentions.read(iter(lambda: os.read(descriptor, _BLOCK), b""))
    except OSError as error:
        yield OSError(error.errno, error.strerror, path)
    finally:
        os.close(descriptor)


def _remove_artifact(builder: Builder, identity: str, item: Item) -> bool:
    """Remove an artifact unless it came into use."""
    now_ns = builder.now_ns()
    aside = os.path.join(os.path.dirname(item.path), f".{identity}.{os.getpid()}-{os.urandom(6).hex()}.tmp")
    try:
        if not is_old(os.lstat(item.path).st_mtime_ns, now_ns):
            return False
        os.rename(item.path, aside)
        if not is_old(os.lstat(aside).st_mtime_ns, now_ns):
            with suppress(OSError):  # taken: it was published anew
                os.rename(aside, item.path)
                return False
        return _remove_files(aside)
    except FileNotFoundError:
        return False


def _remove_leftover(builder: Builder, item: Item) -> bool:
    """Remove a leftover. One that is an artifact in use, whose sweep was killed, is put back."""
    if not os.path.isdir(item.path):
        return _unlink(item.path)
    name = leftover_of(os.path.basename(item.path))
    place = os.path.join(builder.store.folder, name or "")
    if name is not None and _names(item.path) == set(FILES) and not os.path.lexists(place):
        with suppress(OSError):
            os.rename(item.path, place)
            with suppress(ArtifactError):
                builder.store.load(name)
                return False
            os.rename(place, item.path)
    return _remove_files(item.path)


def _remove_files(folder: str) -> bool:
    """Remove the two files of an artifact and their folder, which holds nothing else."""
    for name in FILES:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    return True


def _unlink(path: str) -> bool:
    with suppress(FileNotFoundError):
        os.unlink(path)
        return True
    return False
