"""Gates: stat data of everything that an answer rests on, looked at before anything else.

A gate is conservative: whatever it cannot vouch for, it leaves to the pointers. There is one for the whole
workspace (`build/gate.txt`, its answer is the number of targets) and one beside each pointer that was asked
for (`build/<target>.gate`, its answer is the artifact's id). This module imports next to nothing, because
gates are asked before click, msgspec and doit are imported.

The file: a line with the seal of the rest (`halo.files.seal`), a header line
`halo-gate 1 <compiler> <recorded_ns> <lines> <answer>`, a line each for the workspace (a gate that was copied
along with its folder speaks for the original), Halo's home and the templates, then a line a path:
`mtime_ns ctime_ns size inode path`, or `- path` for what must be absent.
"""

import os

from halo.files.regular import read_regular
from halo.files.seal import machine_key, seal

_LARGEST = 1 << 28  # bytes of a gate

_MAGIC = "halo-gate 1"
_RACY_NS = 2_000_000_000  # as in halo.files.stamps, which this module must not import

PlainStamp = tuple[int, int, int, int]


def workspace_gate(workspace: str) -> str:
    """Return the path of the gate of a whole workspace."""
    return os.path.join(workspace, ".halo", "build", "gate.txt")


def target_gate(workspace: str, name: str) -> str:
    """Return the path of the gate of one target; `name` is the target's name."""
    return os.path.join(workspace, ".halo", "build", *name.split("/")) + ".gate"


# What a gate speaks for, as absolute paths: the workspace, Halo's home, the templates.
Roots = tuple[str, str, str]


def ask(path: str, roots: Roots, compiler: str) -> str | None:
    """Return the gate's answer when nothing changed since it was written here, else None."""
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
        if lines.pop() or len(lines) != int(count) or tuple(lines[:3]) != roots:
            return None
        trusted_before = int(recorded) - _RACY_NS
        if all(_unchanged(line, trusted_before) for line in lines[3:]):
            return answer
    except (OSError, ValueError):
        return None
    return None


def _unchanged(line: str, trusted_before: int) -> bool:
    if line.startswith("- "):
        try:
            os.lstat(line[2:])  # a link to nowhere is something
        except (FileNotFoundError, NotADirectoryError):
            return True
        return False
    mtime, ctime, size, inode, path = line.split(" ", 4)
    st = os.stat(path)
    return (
        st.st_mtime_ns == int(mtime)
        and st.st_ctime_ns == int(ctime)
        and st.st_size == int(size)
        and st.st_ino == int(inode)
        and max(st.st_mtime_ns, st.st_ctime_ns) <= trusted_before
    )


def render(
    stamps: dict[str, PlainStamp | None],
    *,
    roots: Roots,
    compiler: str,
    recorded_ns: int,
    answer: str,
    key: bytes,
) -> bytes | None:
    """Write a gate: `stamps` maps absolute paths to stat data, None for absent.

    Returns None for what cannot stand on a line, or would not be trusted yet because it changed within
    the last two seconds: a gate that nobody passes is not worth writing.
    """
    newest = max((max(s[0], s[1]) for s in stamps.values() if s is not None), default=0)
    if newest > recorded_ns - _RACY_NS:
        return None
    lines = list(roots)
    for path, stamp in sorted(stamps.items()):
        lines.append(f"- {path}" if stamp is None else " ".join(map(str, (*stamp, path))))
    if any("\n" in line for line in lines):
        return None
    header = f"{_MAGIC} {compiler} {recorded_ns} {len(lines)} {answer}"
    content = ("\n".join([header, *lines]) + "\n").encode("utf-8", "surrogateescape")
    return f"{seal(key, content)}\n".encode() + content
