"""What runs first inside the sandbox: it looks at the mounts once more, sets limits, and becomes the command.

bubblewrap looks paths up by their names. A program that is in the workspace at the same time (another
session's command, an MCP server) could swap a folder for a link just then, and what that leads to would be
mounted. The kernel knows where each mount really came from (`/proc/self/mountinfo`), so that is compared with
where it should have come from, before anything of the command runs.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from halo.tools.base import ToolFailure
from halo.tools.sandbox.shells import shell

MOVED = "bwrap: a folder of the workspace was moved while the sandbox was set up"

_FILE_BYTES = 8 << 30  # of a file that a command writes
_LEAST_MEMORY = 32 << 30  # bytes of address space: some runtimes reserve much more than they use
_PROCESSES = 4096  # of one command; nothing bounds those of root

# The table of mounts. bash goes back in a file after each line that it reads, and the kernel writes the whole
# table anew for that; so it reads all of it at once.
_TABLE_BASH = "halo_table=$(</proc/self/mountinfo)\n"
_TABLE_SH = """halo_table=
while read -r halo_1; do halo_table="$halo_table$halo_1
"; done </proc/self/mountinfo
"""

# Of a program's arguments: how many mounts to look for, these, how many variables to set, these, the program.
# The kernel tells mounts in the order in which they were made, and so do the arguments: they are found on the
# way, before the options (`rw` or `ro` first). Only what stands elsewhere is searched for, which takes half a
# second for hundreds.
_SCRIPT = f"""halo_n=$1; shift
set -f; IFS='
'
for halo_1 in $halo_table; do [ "$halo_n" -gt 0 ] || break
halo_1=${{halo_1#* }}
case ${{halo_1#* }} in "$1 r"[wo][,\\ ]*) shift; halo_n=$((halo_n - 1));; esac
done
unset IFS; set +f
[ "$halo_n" -eq 0 ] || {{ halo_seen='
'
while read -r halo_1 halo_2 halo_3 halo_4 halo_5 halo_6; do halo_seen="$halo_seen$halo_3 $halo_4 $halo_5
"; done </proc/self/mountinfo; }}
while [ "$halo_n" -gt 0 ]; do
case $halo_seen in *"
$1
"*) ;; *) echo "{MOVED}" >&2; exit 1;; esac
shift; halo_n=$((halo_n - 1)); done
halo_n=$1; shift
while [ "$halo_n" -gt 0 ]; do export "$1"; shift; halo_n=$((halo_n - 1)); done
exec "$@"
"""


def entering(
    program: Sequence[str], origins: Sequence[str], variables: Mapping[str, str] | None = None
) -> list[str]:
    """Return what becomes `program` with limits that it cannot raise again.

    `origins` are those of the mounts to look for. `variables` are set for the program alone: the loader of
    bubblewrap itself, outside, must not see them.
    """
    path = shell()
    is_bash = path.endswith("bash")
    limits = {
        "c": 0,
        "f": _FILE_BYTES // (1024 if is_bash else 512),
        "v": max(_memory(), _LEAST_MEMORY) // 1024,
    }
    if os.getuid() != 0 and _counts_in_namespaces(os.uname().release):
        limits["u"] = _PROCESSES
    bounds = "".join(f"ulimit -{letter} {limit} 2>/dev/null; " for letter, limit in limits.items())
    table = _TABLE_BASH if is_bash else _TABLE_SH
    script = f"{bounds}echo 1000 2>/dev/null >/proc/self/oom_score_adj\n{table}{_SCRIPT}"
    # Privileged, bash reads no file that a variable names.
    options = ["-p", "-c"] if is_bash else ["-c"]
    given = [f"{name}={value}" for name, value in (variables or {}).items()]
    counted = [str(len(origins)), *origins, str(len(given)), *given]
    return [path, *options, script, "sandbox", *counted, *program]


def origins(paths: Iterable[str]) -> list[str]:
    """Return what the kernel must say of each path mounted on itself: device, folder in it, mount point."""
    table: dict[str, tuple[str, str, str]] = {}
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file.read().decode("utf-8", "surrogateescape").split("\n"):
            fields = line.split(" ")
            if len(fields) > 5:
                table[fields[0]] = (fields[2], fields[3], fields[4])
    return [_origin(path, table) for path in paths]


def _origin(path: str, table: Mapping[str, tuple[str, str, str]]) -> str:
    device, folder, point = table.get(_mount_of(path), ("", "", "?"))
    spelled, start = _spelled(path), point.rstrip("/")
    if spelled != point and not spelled.startswith(f"{start}/"):
        raise ToolFailure(f"the sandbox could not be set up: {path} cannot be found among the mounts")
    below = spelled[len(start) :] if spelled != point else ""
    return f"{device} {folder.rstrip('/') + below or '/'} {spelled}"


def _mount_of(path: str) -> str:
    """Return the kernel's number of the mount that a path lies in."""
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""  # it is gone, or was never there: then it cannot be mounted either
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            return next((line.split()[1] for line in file if line.startswith("mnt_id:")), "")
    finally:
        os.close(fd)


def _spelled(path: str) -> str:
    """Write a path as the kernel does in its tables."""
    for char in "\\ \t\n":
        path = path.replace(char, f"\\{ord(char):03o}")
    return path


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _counts_in_namespaces(release: str) -> bool:
    """Tell whether Linux counts a user's processes per user namespace; before, all of the user's counted."""
    numbers = release.split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= (5, 14)
    except (ValueError, IndexError):
        return False
