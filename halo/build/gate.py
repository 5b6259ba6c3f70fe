"""The whole-workspace no-op: one file with the stat data of everything, looked at before all else.

It is conservative: whatever it cannot vouch for, it leaves to the pointers. Imports `os` alone, because
`halo build` asks it before click, msgspec and doit are imported.

The file: a header line `halo-gate 1 <compiler> <recorded_ns> <targets>`, a line each for Halo's home and the
templates, then a line a path: `mtime_ns ctime_ns size inode path`, or `- path` for what must be absent.
"""

import os

_MAGIC = "halo-gate 1"
_RACY_NS = 2_000_000_000  # as in halo.files.stamps, which this module must not import


def gate_path(workspace: str) -> str:
    """Return where the gate of a workspace lies."""
    return os.path.join(workspace, ".halo", "build", "gate.txt")


def passes(workspace: str, home: str, templates: str, compiler: str) -> int | None:
    """Return the number of targets when nothing changed since the gate was written, else None."""
    try:
        with open(gate_path(workspace), encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            header, gate_home, gate_templates, *lines = file.read().split("\n")
        magic, number, gate_compiler, recorded, targets = header.split(" ")
        if f"{magic} {number}" != _MAGIC or gate_compiler != compiler:
            return None
        if (gate_home, gate_templates) != (home, templates) or lines.pop():
            return None
        trusted_before = int(recorded) - _RACY_NS
        if all(_unchanged(line, trusted_before) for line in lines):
            return int(targets)
    except (OSError, ValueError):
        return None
    return None


def _unchanged(line: str, trusted_before: int) -> bool:
    if line.startswith("- "):
        try:
            os.stat(line[2:])
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
    stamps: dict[str, tuple[int, int, int, int] | None],
    *,
    home: str,
    templates: str,
    compiler: str,
    recorded_ns: int,
    targets: int,
) -> bytes | None:
    """Write the gate's content: `stamps` maps absolute paths to stat data, None for absent.

    Returns None when a path cannot stand on a line; such a workspace goes without a gate.
    """
    lines = [f"{_MAGIC} {compiler} {recorded_ns} {targets}", home, templates]
    for path, stamp in sorted(stamps.items()):
        lines.append(f"- {path}" if stamp is None else " ".join(map(str, (*stamp, path))))
    if any("\n" in line for line in lines):
        return None
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
