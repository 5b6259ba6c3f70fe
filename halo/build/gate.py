"""Gates: stat data of everything that an answer rests on, looked at before anything else.

A gate is conservative: whatever it cannot vouch for, it leaves to the pointers. There is one for the whole
workspace (`build/gate.txt`, its answer is the number of targets) and one beside the pointer of each agent
(`build/<target>.gate`, its answer is the artifact's id). This module imports next to nothing, because
gates are asked before click, msgspec and doit are imported.

The file (docs/reference/formats.md): a line with the seal of the rest (`halo.files.seal`), a header line
`halo-gate 2 <compiler> <recorded_ns> <lines> <owners> <answer>`, a line each for the workspace (a gate that
was copied along with its folder speaks for the original), Halo's home, the templates and the user's home;
then as many lines as the header says, one a path: `mtime_ns ctime_ns size inode digest`, a tab, the path. The
digest is `-` where stat data speak for the content, else that of the content, or `exists` where that plays no
part. `-` alone is what must be absent, `?` what nothing short of the pointers can tell. An empty line is one
that nobody needs any more. Last come the owners, a line each: a name and the numbers of its lines.
"""

import os
import time

from halo.files.regular import read_regular
from halo.files.seal import machine_key, seal

_LARGEST = 1 << 28  # bytes of a gate

_MAGIC = "halo-gate 2"
_YOUNG_NS = 4_000_000_000  # twice the time in which a write can leave an older stamp (halo.files.stamps)

EXISTS = "exists"
SETTLED = "-"
UNSURE = "?"


def workspace_gate(workspace: str) -> str:
    """Return the path of the gate of a whole workspace."""
    return os.path.join(workspace, ".halo", "build", "gate.txt")


def target_gate(workspace: str, name: str) -> str:
    """Return the path of the gate of one target; `name` is the target's name."""
    return os.path.join(workspace, ".halo", "build", *name.split("/")) + ".gate"


# What a gate speaks for, as absolute paths: the workspace, Halo's home, the templates, the user's home.
Roots = tuple[str, str, str, str]


class Gate:
    """What a gate says: its answer, its lines, the numbers of the lines of each owner (as text)."""

    __slots__ = ("answer", "lines", "owners", "recorded_ns")

    def __init__(self, answer: str, recorded_ns: int, lines: list[str], owners: list[str]) -> None:
        self.answer = answer
        self.recorded_ns = recorded_ns
        self.lines = lines
        self.owners = owners


def read(path: str, roots: Roots, compiler: str) -> Gate | None:
    """Read a gate. One that is absent or damaged, or of another compiler, place or machine, is None."""
    key = machine_key(roots[1])
    if key is None:
        return None
    try:
        sealed, _, content = read_regular(path, _LARGEST).partition(b"\n")
        if sealed.decode() != seal(key, content):
            return None
        header, *lines = content.decode("utf-8", "surrogateescape").split("\n")
        magic, number, gate_compiler, recorded, count, owners, answer = header.split(" ")
        end = len(roots) + int(count)
        known = f"{magic} {number}" == _MAGIC and gate_compiler == compiler
        whole = not lines.pop() and len(lines) == end + int(owners)
        if not known or not whole or tuple(lines[: len(roots)]) != roots:
            return None
        return Gate(answer, int(recorded), lines[len(roots) : end], lines[end:])
    except (OSError, ValueError):
        return None


def ask(path: str, roots: Roots, compiler: str, *, any_age: bool = False) -> str | None:
    """Return the gate's answer when nothing changed since it was written here, else None.

    What changed so shortly before the gate was written that a later write could carry the same stamp is
    compared by content. For one target that is cheap at `any_age`; for a whole workspace it is done while the
    gate is young, then the pointers are asked for one that stat data settle.
    """
    gate = read(path, roots, compiler)
    if gate is None:
        return None
    young = any_age or gate.recorded_ns <= time.time_ns() <= gate.recorded_ns + _YOUNG_NS
    return gate.answer if all(_unchanged(line, young=young) for line in gate.lines) else None


def changed(gate: Gate) -> set[int]:
    """Return the numbers of the lines that stat data alone cannot vouch for."""
    return {i for i, line in enumerate(gate.lines) if not _unchanged(line, young=False)}


def _unchanged(line: str, *, young: bool) -> bool:
    known, _, path = line.partition("\t")
    if not known:
        return True
    try:
        if known == "-":
            return not _is_there(path)
        st = os.stat(path)
        stamp = f"{st.st_mtime_ns} {st.st_ctime_ns} {st.st_size} {st.st_ino} "
        if known == stamp + SETTLED:
            return True
        return young and known.startswith(stamp) and _same_content(path, known[len(stamp) :])
    except (OSError, ValueError):  # a name that has no bytes in this locale is a ValueError
        return False


def _same_content(path: str, digest: str) -> bool:
    return digest == EXISTS or (digest != UNSURE and content_digest(path) == digest)


if os.access in os.supports_follow_symlinks:

    def _is_there(path: str) -> bool:
        """Say whether anything is there, a link to nowhere included; without the price of an exception."""
        return os.access(path, os.F_OK, follow_symlinks=False)

else:
    _is_there = os.path.lexists


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


def render(gate: Gate, *, roots: Roots, compiler: str, key: bytes) -> bytes | None:
    """Write a gate, sealed with `key`. Returns None for what cannot stand on a line: that goes without."""
    body = [*roots, *gate.lines, *gate.owners, ""]
    text = "\n".join(body)
    if text.count("\n") != len(body) - 1:
        return None
    counts = f"{len(gate.lines)} {len(gate.owners)}"
    header = f"{_MAGIC} {compiler} {gate.recorded_ns} {counts} {gate.answer}\n"
    content = (header + text).encode("utf-8", "surrogateescape")
    return f"{seal(key, content)}\n".encode() + content
