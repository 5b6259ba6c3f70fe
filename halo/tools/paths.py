"""How tools reach files: relative to the workspace root, or `skill:<id>/...` for skills elsewhere.

Everything is opened through `Files`, which nothing leaves. What goes wrong becomes one sentence for
the model that names the file as the model knows it: never an absolute path, never the system's own message.
"""

import errno
import os
import posixpath
from functools import partial
from typing import NamedTuple

from halo.errors import TreeError
from halo.files.roots import Admit, Found, Kind
from halo.tools.addresses import parse, rest_below
from halo.tools.base import Surroundings, ToolFailure, brief, visible
from halo.tools.hidden import hidden_below
from halo.tools.linked import Link, deciding_links, other_names
from halo.tools.masks import Hidden, hides, masked
from halo.tools.sandbox.base import Files

_WINDOWS = os.name == "nt"

_SAID = {
    errno.ENOENT: "does not exist; file_list shows what does",
    errno.EISDIR: "is a folder; use file_list",
    errno.ENOTDIR: "is not a folder",
    errno.EACCES: "may not be read",
    errno.EPERM: "may not be read",
    errno.ENAMETOOLONG: "is too long for a name; file_list shows what exists",
    errno.ELOOP: "is a link that leads back to itself",
}


class Place(NamedTuple):
    """A path below a confined root; `shown` is how the model writes it.

    `links` are those by which files elsewhere in the workspace are settings of it, or records. `hidden` is
    what the user's settings hide below the root.
    """

    root: Files
    relative: str
    shown: str
    links: tuple[Link, ...] = ()
    hidden: Hidden = ()

    @property
    def is_masked(self) -> bool:
        """Whether the path, as it is written, is kept from models."""
        return self.masks(self.relative)

    def masks(self, real: str) -> bool:
        """Tell whether a real path below the same root is kept from models."""
        return masked(real, self.hidden)

    def below(self, name: str) -> "Place":
        """Return an entry of this folder."""
        return self._replace(
            relative=posixpath.join(self.relative, name) if self.relative else name,
            shown=posixpath.join(self.shown, visible(name)) if self.shown not in ("", ".") else visible(name),
        )


def locate(path: str, around: Surroundings) -> Place:
    """Turn what the model wrote into a place. Nothing outside the roots can be named."""
    address = parse(path, windows=_WINDOWS)
    if address.skill is not None:
        root = around.skills.get(address.skill)
        if root is None:
            raise ToolFailure(
                f"no skill {brief(address.skill)!r} has files there; activate the skill to see its files"
            )
        shown = visible(posixpath.join(f"skill:{address.skill}", address.path))
        hidden = hidden_below(root, around.hidden, around.workspace)
        return Place(root, address.path, shown, hidden=hidden)
    relative = address.path
    if address.absolute:
        found = _in_workspace(address.path, around.workspace.path)
        if found is None:
            raise ToolFailure(
                "an absolute path outside the workspace; write it relative to the workspace root"
            )
        relative = found
    root = around.workspace
    hidden = hidden_below(root, around.hidden, root)
    return Place(root, relative, visible(relative) or ".", deciding_links(root), hidden)


def _in_workspace(path: str, root: str) -> str | None:
    """Return an absolute path relative to the root, also if spelt through symlinks (`/tmp` on macOS)."""
    if not root:  # in memory
        return None
    for folder in (root, os.path.realpath(root)):
        rest = rest_below(path, folder, windows=_WINDOWS)
        if rest is not None:
            return rest
    try:
        # Which folder above the path is the workspace? This only compares; what is opened is opened below
        # the root.
        ours, parts = os.stat(root), path.split("/")
        for end in range(1, len(parts) + 1):
            if os.path.samestat(os.stat("/".join(parts[:end]) + "/"), ours):
                return "/".join(parts[end:])
    except (OSError, ValueError):
        pass
    return None


def real_place(place: Place) -> Place:
    """Return the place with its symlinks resolved, shown as before; refuse one that is kept from models.

    What is listed below it without entering links then has real paths, too.
    """
    try:
        real = place.root.resolve(place.relative)
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error
    _admit(place, real)
    return place._replace(relative=real)


def _admit(place: Place, real: str) -> None:
    if any(map(place.masks, (real, *other_names(real, place.links)))):
        hidden = hides(place.hidden, real)
        why = "the user's settings hide it" if hidden else "it may hold keys or other conversations"
        raise ToolFailure(f"{_name(place)} is kept from models: {why}")


def kind_of(place: Place) -> Kind:
    """Say what is there, a symlink looked through."""
    try:
        return place.root.kind(place.relative)
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error


def read_bytes(place: Place, limit: int, admit: Admit | None = None) -> bytes:
    """Read at most `limit` bytes of a regular file; `admit` is asked before it is."""

    def both(real: str) -> None:
        if admit is not None:
            admit(real)
        _admit(place, real)

    try:
        return place.root.read(place.relative, limit, both)
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error


def list_folder(place: Place) -> list[Found]:
    """Return what is in a folder, sorted by name."""
    try:
        return sorted(place.root.entries(place.relative, partial(_admit, place)))
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error


def _explain(place: Place, error: TreeError | OSError) -> str:
    """Say what is wrong in one sentence. The text of an OSError may hold an absolute path, so it is not used.

    Nor are the hints of a TreeError: they tell a user to remove or replace the file.
    """
    if isinstance(error, TreeError):
        return f"{_name(place)} {error.message}"
    said = _SAID.get(error.errno or 0)
    return f"{_name(place)} {said or f'cannot be read: {error.strerror or type(error).__name__}'}"


def _name(place: Place) -> str:
    return brief(place.shown)
