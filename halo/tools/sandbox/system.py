"""What a command in bubblewrap sees of the machine: the programs of the system, and nothing to change."""

import os
import stat

from halo.tools.sandbox.layout import Layout
from halo.tools.sandbox.paths import entries_of, within

HOME = "/tmp/.home"  # noqa: S108  # inside; a path that no workspace has
TMP_BYTES = 512 << 20  # of /tmp and the home inside: both are memory
_SHM_BYTES = 128 << 20

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/etc")

# Of /etc, whatever their rights say; beside them, what not everybody may read: root may read everything.
_PRIVATE_ETC = (
    "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "security/opasswd", "krb5.keytab",
    "ssl/private", "wireguard", "NetworkManager/system-connections", "credstore", "credstore.encrypted",
)  # fmt: skip
_MOST_ETC = 20_000  # entries that are looked at

# Of /proc: what root may write, or what tells about the machine. `core_pattern` would run a program outside.
_READONLY_PROC = ("sys", "fs", "irq", "bus", "pressure")
_PRIVATE_PROC = (
    "acpi", "asound", "kcore", "keys", "kmsg", "latency_stats", "mtrr", "sched_debug", "scsi",
    "sysrq-trigger", "timer_list", "timer_stats",
)  # fmt: skip


def lay_system(layout: Layout, home: str, *, network: bool) -> None:
    """Lay out the system. `home` is the user's, which may lie in a folder of programs."""
    for path in SYSTEM:
        if os.path.islink(path):
            layout.add("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            layout.bind(path)
    for path in _private_etc():
        layout.blank(path)
    if within(home, "/opt") and home != "/opt":
        layout.add("--tmpfs", home)
    layout.add("--proc", "/proc")
    for name in _READONLY_PROC:
        if os.path.isdir(f"/proc/{name}"):
            layout.bind(f"/proc/{name}")
    for name in _PRIVATE_PROC:
        layout.blank(f"/proc/{name}")
    layout.add("--dev", "/dev")
    layout.memory("/dev/shm", _SHM_BYTES)  # noqa: S108
    layout.add("--remount-ro", "/dev")
    layout.memory("/tmp", TMP_BYTES)  # noqa: S108
    layout.add("--dir", HOME)
    # Where names of hosts are looked up may be a link to a file that a service writes.
    resolver = os.path.realpath("/etc/resolv.conf")
    if network and not within(resolver, "/etc") and os.path.isfile(resolver):
        layout.bind(resolver)


def _private_etc() -> list[str]:
    """Return what is blank in /etc: password files, keys, and all that its rights keep from others."""
    found = {f"/etc/{name}" for name in _PRIVATE_ETC}
    left, folders = _MOST_ETC, ["/etc"]
    while folders and left > 0:
        for entry in entries_of(folders.pop()):
            left -= 1
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if _is_private(entry, is_folder) or (name.startswith("ssh_host_") and name.endswith("_key")):
                found.add(entry.path)
            elif is_folder and entry.path not in found:
                folders.append(entry.path)
    return sorted(path for path in found if not any(within(path, f) and path != f for f in found))


def _is_private(entry: os.DirEntry[str], is_folder: bool) -> bool:
    if entry.is_symlink():
        return False
    needed = stat.S_IXOTH if is_folder else stat.S_IROTH
    try:
        return not entry.stat(follow_symlinks=False).st_mode & needed
    except OSError:
        return False
