"""What a command in bubblewrap sees: an allow-list of mounts, laid out from what lies on the disk right now.

Programs of the system, read-only, and the workspace; nothing else of the machine has a name inside. In the
workspace, what decides about Halo and git cannot be changed, and what is private is not there (`kept`).
"""

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.sandbox.kept import lay_opened, lay_workspace
from halo.tools.sandbox.layout import Layout
from halo.tools.sandbox.paths import passed, within
from halo.tools.sandbox.system import HOME, SYSTEM, lay_system

# No folder of these is opened: what is blank in them, or tells of the machine, would be there again.
_NEVER_OPENED = ("/etc", "/proc", "/dev", "/sys")


class Opening(NamedTuple):
    """What a sandbox opens, and hides again.

    `workspace` is the folder that commands run in; `write` says whether they may change it. `writable` and
    `hidden` are absolute paths. `home` is the user's home, `halo_home` that of Halo. `settings`: the
    workspace's settings.yaml holds no secret, and may be read.
    """

    workspace: str
    home: str
    halo_home: str
    write: bool = True
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    settings: bool = False


def mounts(opening: Opening) -> Layout:
    """Return all mounts; `ToolFailure` where that would not be safe."""
    root = os.path.realpath(opening.workspace)
    halo_home = os.path.realpath(opening.halo_home)
    _refuse_workspace(root, opening.home)
    opened = _opened(opening.writable, root)
    _refuse_opened(opened, halo_home)
    gits = list(_opened_gits(opening.writable, (root, *opened)))
    hidden = [halo_home, *map(os.path.realpath, opening.hidden)]
    layout = Layout()
    lay_system(layout, os.path.realpath(opening.home), network=opening.network)
    for path in hidden:
        if any(within(path, folder) for folder in SYSTEM):
            layout.blank(path)
    for folder in opened:
        lay_opened(layout, folder, hidden, gits)
    for folder, link in _in_home(opening, opened):
        layout.add("--symlink", folder, link)
    lay_workspace(layout, root, hidden, gits, write=opening.write, settings=opening.settings)
    layout.add("--remount-ro", "/")
    return layout


def _opened(writable: Iterable[str], root: str) -> list[str]:
    """Return the real folders beside the workspace that commands may write to, each once.

    What is reached through a folder that is open already is left out: a link there could be a command's own,
    and lead anywhere.
    """
    ways = {path: list(passed(path)) for path in writable if os.path.isdir(path)}
    ends = {path: os.path.realpath(path) for path in ways}
    found = set()
    for path, way in ways.items():
        others = {root, *(end for other, end in ends.items() if end != ends[path])}
        if not any(within(place, other) for place in way for other in others):
            found.add(ends[path])
    return sorted(found)


def _in_home(opening: Opening, opened: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each open folder of the user's home, and where it lies in the home that commands have.

    A cache at `~/.cache/pip` would be another folder to pip otherwise.
    """
    home, linked, opened = os.path.normpath(opening.home), list[str](), frozenset(opened)
    for path in sorted(set(map(os.path.normpath, opening.writable))):
        below = path != home and within(path, home) and not any(within(path, other) for other in linked)
        if below and (real := os.path.realpath(path)) in opened:
            linked.append(path)
            yield real, os.path.join(HOME, os.path.relpath(path, home))


def _opened_gits(writable: Iterable[str], places: Iterable[str]) -> Iterator[str]:
    """Yield each `.git` that the user opened, unless a link that commands could change leads to it."""
    for path in writable:
        folder, name = os.path.split(os.path.normpath(path))
        way = passed(folder)
        if name == ".git" and not any(os.path.islink(p) and within(p, q) for p in way for q in places):
            yield os.path.join(os.path.realpath(folder), name)


def _refuse_workspace(root: str, home: str) -> None:
    """Refuse a workspace that would bring in what the sandbox is there to keep out."""
    for path in (home, *SYSTEM, "/tmp", "/dev", "/proc"):  # noqa: S108
        if within(os.path.realpath(path), root):
            raise ToolFailure(
                f"commands cannot be run in a sandbox here: the workspace holds {path}; "
                "the user can make a workspace in a folder below"
            )
    if os.path.islink(os.path.join(root, ".halo")):
        raise ToolFailure("commands cannot be run in a sandbox here: .halo is a symbolic link")


def _refuse_opened(opened: Iterable[str], halo_home: str) -> None:
    for path in opened:
        if within("/usr", path):
            raise ToolFailure(f"general.tools.writable: {path} holds the whole system; name a folder below")
        for kept in (halo_home, *_NEVER_OPENED):
            if within(path, kept):
                raise ToolFailure(
                    f"general.tools.writable: {path} lies in {kept}, which commands may never write to; "
                    "the user can take it out"
                )
