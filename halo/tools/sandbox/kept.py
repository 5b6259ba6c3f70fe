"""What is kept from commands in a folder that they may write to: Halo's layers, git, and what is hidden.

A mount point cannot be renamed, so `.halo` and `.git` are mounts of their own: no other folder can take their
place. A folder above one could be renamed with all that is in it, so each of those is a mount as well.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise

from halo.tools.base import ToolFailure
from halo.tools.masks import masked
from halo.tools.sandbox.layout import Layout
from halo.tools.sandbox.nested import find_nested
from halo.tools.sandbox.paths import between, passed, within

# In `.halo/`, beside what no tool may read: other conversations, and what is made of them.
_PRIVATE_HALO = frozenset({"traces", "batch", "evo"})
# Not searched for links: what is found there is verified, or not there for commands.
_NOT_SEARCHED = frozenset({"artifacts", "sessions", "secrets", *_PRIVATE_HALO})
_MOST_SEARCHED = 20_000  # entries of `.halo`

# In a `.git` that may be written to: what git runs, or what tells it where to look for that.
_GUARDED_GIT = ("hooks", "config", "config.worktree", "commondir", "modules", "worktrees")

_HALO_BYTES = 1 << 20  # of the folder that takes the place of `.halo`
_MOST_SHOWN = 500  # entries of it; the time for each grows with their number


def lay_workspace(
    layout: Layout,
    root: str,
    hidden: Iterable[str],
    opened: Iterable[str],
    *,
    write: bool,
    settings: bool = False,
) -> None:
    """Show the workspace. `hidden` and `opened` are real paths; a `.git` among `opened` may be written to.

    `settings`: its settings.yaml holds no secret and is there to be read. Git would take it for deleted
    otherwise, and commit that.
    """
    halo, git = os.path.join(root, ".halo"), os.path.join(root, ".git")
    layout.bind(root, write=write, disputed=True)  # it may lie in another one
    _lay_halo(layout, halo, settings=settings)
    linked = list(_linked(root, halo))
    kept = _Kept(layout, root, opened, write=write)
    kept.solid.add(halo)
    kept.gone.update(
        os.path.join(halo, name) for name in _names(halo) if not _is_shown(name, settings=settings)
    )
    found = [git] if os.path.lexists(git) else []
    kept.lay([*found, *find_nested(root), *(path for path, private in linked if not private)],
             [*hidden, *(path for path, private in linked if private)])  # fmt: skip


def lay_opened(layout: Layout, folder: str, hidden: Iterable[str], opened: Iterable[str]) -> None:
    """Show a folder beside the workspace that commands may write to; what lies in it is kept alike."""
    kept = _Kept(layout, folder, opened, write=True)
    if os.path.basename(folder) == ".git" or os.path.isfile(os.path.join(folder, "HEAD")):
        kept.lay_git(folder, write=True)
    else:
        layout.bind(folder, write=True, disputed=True)
    kept.lay(find_nested(folder, own=True), hidden)


class _Kept:
    """Lays out what is kept below one folder. `solid`: commands cannot change it; `gone`: it is blank."""

    def __init__(self, layout: Layout, top: str, opened: Iterable[str], *, write: bool) -> None:
        self.solid: set[str] = set()
        self.gone: set[str] = set()
        self._layout = layout
        self._top = top
        self._opened = frozenset(opened)
        self._write = write
        self._pinned: set[str] = set()

    def lay(self, kept: Iterable[str], hidden: Iterable[str]) -> None:
        blank = {path for path in hidden if within(path, self._top) and path != self._top}
        for path in sorted({*kept, *blank}, key=lambda path: path.split("/")):
            if _below(path, self.gone) or (path not in blank and _below(path, self.solid)):
                continue
            if path in blank and not os.path.exists(path):
                continue
            self._pin(path)
            if path in blank:
                self._layout.blank(path)
                self.gone.add(path)
            elif os.path.basename(path) == ".git":
                self.lay_git(path, write=self._write and path in self._opened)
            else:
                self._keep(path)

    def _pin(self, path: str) -> None:
        """Make mounts of the folders above, so that none can be renamed."""
        for folder in between(path, self._top):
            if folder not in self._pinned and not _below(folder, self.solid):
                self._layout.bind(folder, write=self._write, disputed=True)
                self._pinned.add(folder)

    def _keep(self, folder: str) -> None:
        self._layout.bind(folder, disputed=True)
        self.solid.add(folder)
        if os.path.basename(folder) == ".halo":
            for name in _names(folder):
                if _is_private(f".halo/{name}"):
                    self._layout.blank(os.path.join(folder, name))
                    self.gone.add(os.path.join(folder, name))

    def lay_git(self, path: str, *, write: bool) -> None:
        """Keep what git does as it is: its hooks and settings, or all of it if not `write`."""
        if os.path.islink(path):
            raise ToolFailure(
                f"commands cannot be run in a sandbox here: {_named(path, self._top)} is a symbolic link, "
                "and another could be put in its place; the user can put what it leads to there"
            )
        if not write or not os.path.isdir(path):
            self._layout.bind(path, disputed=True)
            self.solid.add(path)
            return
        self._layout.bind(path, write=True, disputed=True)
        self._pinned.add(path)
        with suppress(FileExistsError):
            os.mkdir(os.path.join(path, "hooks"))  # what is not there could be made
        for name in _GUARDED_GIT:
            guarded = os.path.join(path, name)
            if os.path.islink(guarded):
                raise ToolFailure(
                    f"commands cannot be run in a sandbox here: {_named(guarded, self._top)} is a symbolic "
                    "link, and another could be put in its place; the user can take .git out of "
                    "general.tools.writable"
                )
            if os.path.exists(guarded):
                self._layout.bind(guarded, disputed=True)
                self.solid.add(guarded)


def _is_shown(name: str, *, settings: bool) -> bool:
    """Tell whether commands see what is called `name` in the workspace's `.halo/`."""
    return not _is_private(f".halo/{name}") or (settings and name == "settings.yaml")


def _lay_halo(layout: Layout, folder: str, *, settings: bool) -> None:
    """Show the workspace's `.halo/` without what is private, and let nothing in it be changed or made.

    An empty folder takes its place, and gets what there is to see: so nothing that is made later shows up.
    """
    names = _names(folder)
    if len(names) > _MOST_SHOWN:
        raise ToolFailure(
            f"commands cannot be run in a sandbox here: .halo holds {len(names):,} files and folders, each "
            f"of which would be mounted, and {_MOST_SHOWN} are possible; the user can put them into folders"
        )
    layout.memory(folder, _HALO_BYTES)
    for name in names:
        path = os.path.join(folder, name)
        if not _is_shown(name, settings=settings):
            continue
        if os.path.islink(path):
            layout.add("--symlink", os.readlink(path), path)
        elif os.path.isdir(path) or os.path.isfile(path):
            layout.bind(path)
    layout.add("--remount-ro", folder)


def _linked(root: str, halo: str) -> Iterator[tuple[str, bool]]:
    """Yield what links of `.halo` lead to elsewhere in the workspace, and whether it is private.

    Raises `ToolFailure` where that cannot be kept: it is not there yet, or a link on the way to it could be
    changed.
    """
    for link in _links(halo):
        end = os.path.realpath(link)
        if any(within(p, root) and not within(p, halo) and os.path.islink(p) for p in passed(link)):
            problem = "leads through a link that commands could change"
        elif not within(end, root) or within(end, halo):
            continue
        elif within(halo, end):
            problem = "leads to a folder that .halo lies in"
        elif not os.path.exists(end):
            problem = "leads to what is not there, so that commands could make it"
        else:
            yield end, _is_private(f".halo/{os.path.relpath(link, halo)}")
            continue
        raise ToolFailure(
            f"commands cannot be run in a sandbox here: {_named(link, root)} {problem}; "
            "the user can put what it stands for there"
        )


def _links(halo: str) -> Iterator[str]:
    left, folders = _MOST_SEARCHED, [halo]
    while folders and left > 0:
        folder = folders.pop()
        for name in _names(folder):
            left -= 1
            path = os.path.join(folder, name)
            if os.path.islink(path):
                yield path
            elif name not in _NOT_SEARCHED and os.path.isdir(path):
                folders.append(path)


def _named(path: str, top: str) -> str:
    return os.path.relpath(path, top)


def _is_private(relative: str) -> bool:
    """Tell whether a path, relative to a workspace, is kept from commands."""
    parts = relative.split("/")
    made_of = any(a.lower() == ".halo" and b.lower() in _PRIVATE_HALO for a, b in pairwise(parts))
    return made_of or masked(relative)


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(within(path, folder) for folder in folders)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
