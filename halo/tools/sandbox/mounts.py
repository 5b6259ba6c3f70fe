"""What a command in bubblewrap sees: an allow-list of mounts, laid out from what lies on the disk right now.

Programs of the system, read-only, and the workspace; nothing else of the machine has a name inside. In the
workspace, what decides about Halo and git itself cannot be changed, and what is private is not there. A mount
point cannot be renamed, so `.halo` and `.git` are mounts of their own: no other folder can take their place.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.masks import masked
from halo.tools.sandbox.nested import find_nested

HOME = "/tmp/.home"  # noqa: S108  # inside; a path that no workspace has
TMP_BYTES = 512 << 20  # of /tmp and the home inside: both are memory
_SHM_BYTES = 128 << 20

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc")
# Of /etc: for the case that Halo runs as root, whom no file rights keep out.
_PRIVATE_ETC = (
    "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "security/opasswd", "krb5.keytab",
    "ssl/private", "wireguard", "NetworkManager/system-connections", "credstore", "credstore.encrypted",
)  # fmt: skip
# Of /proc: what root may write, or what tells about the machine. `core_pattern` would run a program outside.
_READONLY_PROC = ("sys", "fs", "irq", "bus")
_PRIVATE_PROC = ("kcore", "keys", "kmsg", "sched_debug", "sysrq-trigger", "timer_list")

# In `.halo/`, beside what no tool may read: other conversations, and what is made of them.
_PRIVATE_HALO = frozenset({"traces", "batch", "evo"})
# In a `.git` that may be written to: what git runs, or what tells it where to look for that.
_GUARDED_GIT = ("config", "config.worktree", "commondir", "modules", "worktrees")


class Opening(NamedTuple):
    """What a sandbox opens, and hides again.

    `workspace` is the folder that commands run in; `write` says whether they may change it. `writable` and
    `hidden` are absolute paths. `home` is the user's home, `halo_home` that of Halo.
    """

    workspace: str
    home: str
    halo_home: str
    write: bool = True
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def mounts(opening: Opening) -> list[str]:
    """Return bubblewrap's arguments that mount everything; `ToolFailure` where that would not be safe."""
    root = os.path.realpath(opening.workspace)
    _refuse(root, opening)
    arguments = [*_system(opening.network)]
    writable = sorted(os.path.realpath(path) for path in opening.writable)
    for path in writable:
        if path != root and not _within(path, root) and os.path.isdir(path):
            arguments += ["--bind", path, path]
    arguments += ["--bind" if opening.write else "--ro-bind", root, root]
    arguments += _halo(os.path.join(root, ".halo"))
    git = os.path.join(root, ".git")
    arguments += _git(git, write=opening.write and git in writable)
    for folder in find_nested(root):
        arguments += _nested(folder)
    gone: list[str] = []
    for real in sorted(os.path.realpath(path) for path in (opening.halo_home, *opening.hidden)):
        if any(_within(real, shown) for shown in (root, *writable, *_SYSTEM)) and not (
            any(_within(real, folder) for folder in gone) or _is_private(os.path.relpath(real, root))
        ):
            arguments += _blank(real)
            gone.append(real)
    return [*arguments, "--remount-ro", "/", "--chdir", root]


def _refuse(root: str, opening: Opening) -> None:
    """Refuse a workspace that would bring in what the sandbox is there to keep out."""
    for path in (opening.home, *_SYSTEM, "/tmp", "/dev", "/proc"):  # noqa: S108
        if _within(os.path.realpath(path), root):
            raise ToolFailure(
                f"commands cannot be run in a sandbox here: the workspace holds {path}; "
                "the user can make a workspace in a folder below"
            )
    for path in opening.writable:
        if _within("/usr", os.path.realpath(path)):
            raise ToolFailure(f"general.tools.writable: {path} holds the whole system; name a folder below")
    if os.path.islink(os.path.join(root, ".halo")):
        raise ToolFailure("commands cannot be run in a sandbox here: .halo is a symbolic link")


def _system(network: bool) -> Iterator[str]:
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in _PRIVATE_ETC:
        yield from _blank(f"/etc/{name}")
    for name in _names("/etc/ssh"):
        if name.startswith("ssh_host_") and name.endswith("_key"):
            yield from _blank(f"/etc/ssh/{name}")
    yield from ("--proc", "/proc")
    for name in _READONLY_PROC:
        if os.path.isdir(f"/proc/{name}"):
            yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
    for name in _PRIVATE_PROC:
        if os.path.exists(f"/proc/{name}"):
            yield from ("--ro-bind", os.devnull, f"/proc/{name}")
    yield from ("--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108
    yield from ("--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--dir", HOME)  # noqa: S108
    # Where names of hosts are looked up may be a link to a file that a service writes.
    resolver = os.path.realpath("/etc/resolv.conf")
    if network and not _within(resolver, "/etc") and os.path.isfile(resolver):
        yield from ("--ro-bind", resolver, resolver)


def _halo(folder: str) -> Iterator[str]:
    """Show the workspace's `.halo/` without what is private, and let nothing in it be changed or made.

    An empty folder takes its place, and gets what there is to see: so nothing that is made later shows up.
    """
    yield from ("--size", str(1 << 20), "--tmpfs", folder)
    for name in _names(folder):
        path = os.path.join(folder, name)
        if _is_private(f".halo/{name}"):
            continue
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path) or os.path.isfile(path):
            yield from ("--ro-bind", path, path)
    yield from ("--remount-ro", folder)


def _git(path: str, *, write: bool) -> Iterator[str]:
    """Keep commands from changing what git does: its hooks and settings, or all of it if not `write`."""
    if os.path.islink(path) or not os.path.exists(path):
        return
    if not write or not os.path.isdir(path):
        yield from ("--ro-bind", path, path)
        return
    yield from ("--bind", path, path)
    hooks = os.path.join(path, "hooks")
    os.makedirs(hooks, exist_ok=True)  # what is not there could be made
    for name in ("hooks", *_GUARDED_GIT):
        guarded = os.path.join(path, name)
        if os.path.exists(guarded) and not os.path.islink(guarded):
            yield from ("--ro-bind", guarded, guarded)


def _nested(folder: str) -> Iterator[str]:
    """Guard the `.halo` or `.git` of something inside the workspace: an example, a submodule."""
    yield from ("--ro-bind", folder, folder)
    if os.path.basename(folder) != ".git":
        for name in _names(folder):
            if _is_private(f".halo/{name}"):
                yield from _blank(os.path.join(folder, name))


def _blank(path: str) -> Iterator[str]:
    """Put nothing in the place of a file or folder; what is a link, or not there, stays."""
    if os.path.islink(path):
        return
    if os.path.isdir(path):
        yield from ("--tmpfs", path, "--remount-ro", path)
    elif os.path.exists(path):
        yield from ("--ro-bind", os.devnull, path)


def _is_private(relative: str) -> bool:
    """Tell whether a path, relative to a workspace, is kept from commands."""
    parts = relative.split("/")
    made_of = any(a.lower() == ".halo" and b.lower() in _PRIVATE_HALO for a, b in pairwise(parts))
    return made_of or masked(relative)


def _names(folder: str) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return ()


def _within(path: str, folder: str) -> bool:
    """Tell whether `path` is `folder` or lies below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
