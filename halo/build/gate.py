"""Gates: stat data of everything that an answer rests on, looked at before anything else.

A gate is conservative: whatever it cannot vouch for, it leaves to the pointers. There is one for the whole
workspace (`build/gate.txt`, its answer is the number of targets) and one beside the pointer of each agent
(`build/<target>.gate`, its answer is the artifact's id). This module imports next to nothing, because
gates are asked before click, msgspec and doit are imported.

The file: a line with the seal of the rest (`halo.files.seal`), a header line
`halo-gate 1 <compiler> <recorded_ns> <lines> <answer>`, a line each for the workspace (a gate that was copied
along with its folder speaks for the original), Halo's home, the templates and the user's home, then a line a
path: `mtime_ns ctime_ns size inode digest path`, or `- path` for what must be absent. The digest is that of
the content where stat data do not speak for it yet, `exists` where the content plays no part, else `-`.
"""

import os
import time

from halo.files.regular import read_regular
from halo.files.seal import machine_key, seal

_LARGEST = 1 << 28  # bytes of a gate

_MAGIC = "halo-gate 1"
_RACY_NS = 2_000_000_000  # as in halo.files.stamps, which this module must not import

# Times in nanoseconds, size, inode; then the digest.
Entry = tuple[int, int, int, int, str]

EXISTS = "exists"
SETTLED = "-"


def workspace_gate(workspace: str) -> str:
    """Return the path of the gate of a whole workspace."""
    return os.path.join(workspace, ".halo", "build", "gate.txt")


def target_gate(workspace: str, name: str) -> str:
    """Return the path of the gate of one target; `name` is the target's name."""
    return os.path.join(workspace, ".halo", "build", *name.split("/")) + ".gate"


# What a gate speaks for, as absolute paths: the workspace, Halo's home, the templates, the user's home.
Roots = tuple[str, str, str, str]


def ask(path: str, roots: Roots, compiler: str, *, any_age: bool = False) -> str | None:
    """Return the gate's answer when nothing changed since it was written here, else None.

    What changed so shortly before the gate was written that a later write could carry the same stamp is
    compared by content. For one target that is cheap at `any_age`; for a whole workspace it is done while the
    gate is young, then the pointers are asked for one that stat data settle.
    """
    key = machine_key(roots[1])
    if key is None:
        return None
    try:
        sealed, _, content = read_regular(path, _LARGEST).partition(b"\n")
        if sealed.decode() != seal(key, content):
            return None
        header, *lines = content.decode("utf-8", "surrogateescape").split("\n")
        magic, number, gate_compiler, recorded, count, answer = header.split(" ")
        if f"{magic} {number}" != _MAGIC or gate_compiler != compiler:
            return None
        if lines.pop() or len(lines) != int(count) or tuple(lines[: len(roots)]) != roots:
            return None
        recorded_ns = int(recorded)
        young = any_age or recorded_ns <= time.time_ns() <= recorded_ns + 2 * _RACY_NS
        if all(_unchanged(line, recorded_ns - _RACY_NS, young=young) for line in lines[len(roots) :]):
            return answer
    except (OSError, ValueError):
        return None
    return None


def _unchanged(line: str, trusted_before: int, *, young: bool) -> bool:
    if line.startswith("- "):
        try:
            os.lstat(line[2:])  # a link to nowhere is something
        except (FileNotFoundError, NotADirectoryError):
            return True
        return False
    mtime, ctime, size, inode, digest, path = line.split(" ", 5)
    st = os.stat(path)
    if (st.st_mtime_ns, st.st_ctime_ns, st.st_size, st.st_ino) != (
        int(mtime),
        int(ctime),
        int(size),
        int(inode),
    ):
        return False
    if max(st.st_mtime_ns, st.st_ctime_ns) <= trusted_before:
        return True
    return young and (digest == EXISTS or content_digest(path) == digest)


def content_digest(path: str) -> str | None:
    """Return the digest of a file's bytes or of a folder's names, None for what cannot be told so simply."""
    from halo.files.digests import listing_digest, sha256_file

    if not os.path.isdir(path):
        return sha256_file(path)
    with os.scandir(path) as entries:
        found = list(entries)
    if any(entry.is_symlink() or not entry.name.isprintable() or "\\" in entry.name for entry in found):
        return None
    kinds = ((e.name, "dir" if e.is_dir() else "file" if e.is_file() else "other") for e in found)
    return listing_digest(kinds)


def render(
    entries: dict[str, Entry | None],
    *,
    roots: Roots,
    compiler: str,
    recorded_ns: int,
    answer: str,
    key: bytes,
) -> bytes | None:
    """Write a gate: `entries` maps absolute paths to stat data and digest, None for absent.

    Returns None for what cannot stand on a line; such a workspace goes without.
    """
    lines = list(roots)
    for path, entry in sorted(entries.items()):
        lines.append(f"- {path}" if entry is None else " ".join(map(str, (*entry, path))))
    if any("\n" in line for line in lines):
        return None
    header = f"{_MAGIC} {compiler} {recorded_ns} {len(lines)} {answer}"
    content = ("\n".join([header, *lines]) + "\n").encode("utf-8", "surrogateescape")
    return f"{seal(key, content)}\n".encode() + content
