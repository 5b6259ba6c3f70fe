"""How tools address files: relative to the workspace root, or `skill:<id>/...` for skills elsewhere."""

import errno
import os
import posixpath
from typing import NamedTuple

from halo.errors import TreeError
from halo.files.roots import ConfinedRoot, Found
from halo.tools.base import Surroundings, ToolFailure


class Place(NamedTuple):
    """A path below a confined root; `shown` is how the model writes it."""

    root: ConfinedRoot
    relative: str
    shown: str

    def below(self, name: str) -> "Place":
        """Return an entry of this folder."""
        return Place(
            self.root,
            posixpath.join(self.relative, name) if self.relative else name,
            posixpath.join(self.shown, name) if self.shown not in ("", ".") else name,
        )


def locate(path: str, around: Surroundings) -> Place:
    """Turn what the model wrote into a place. Nothing outside the roots can be named."""
    if "\0" in path:
        raise ToolFailure("a path holds no NUL byte")
    if path.startswith("skill:"):
        skill, _, rest = path.removeprefix("skill:").partition("/")
        root = around.skills.get(skill)
        if root is None:
            raise ToolFailure(f"no skill {skill!r} has files there; activate the skill to see its files")
        return Place(root, _normal(rest), path)
    given = path.replace("\\", "/") if os.sep == "\\" else path
    if given.startswith("/"):
        base = around.workspace.path.rstrip("/") + "/"
        if not (given + "/").startswith(base):
            raise ToolFailure(f"{path} is outside the workspace; use paths relative to its root")
        given = given[len(base) :]
    relative = _normal(given)
    return Place(around.workspace, relative, relative or ".")


def _normal(path: str) -> str:
    normal = posixpath.normpath(path) if path else ""
    if normal == ".." or normal.startswith("../"):
        raise ToolFailure(f"{path} is outside the workspace")
    return "" if normal == "." else normal


# What a model must not see: keys that a user wrote into the settings, and other conversations.
_MASKED = (".halo/settings.yaml", ".halo/sessions")


def is_masked(place: Place) -> bool:
    """Tell whether a place in the workspace is kept from models, by whatever path or link it is named."""
    try:
        real = place.root.resolve(place.relative)
    except (TreeError, OSError):
        return False  # it cannot be opened either
    return any(f"{real}/".casefold().startswith(f"{masked}/") for masked in _MASKED)


def _check_open(place: Place) -> None:
    if is_masked(place):
        raise ToolFailure(f"{place.shown} is kept from models: it may hold keys or other conversations")


def read_bytes(place: Place, limit: int) -> bytes:
    """Read at most `limit` bytes of a regular file."""
    _check_open(place)
    try:
        descriptor = place.root.open(place.relative)
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error
    try:
        with open(descriptor, "rb") as file:
            return file.read(limit)
    except IsADirectoryError:
        raise ToolFailure(f"{place.shown} is a folder; use file_list") from None


def list_folder(place: Place) -> list[Found]:
    """Return what is in a folder, sorted by name. Walks do not enter links: they may lead back up."""
    _check_open(place)
    try:
        return sorted(place.root.entries(place.relative))
    except (TreeError, OSError) as error:
        raise ToolFailure(_explain(place, error)) from error


def _explain(place: Place, error: Exception) -> str:
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.ENOENT:
        return f"{place.shown} does not exist; file_list shows what does"
    if number == errno.EISDIR:
        return f"{place.shown} is a folder; use file_list"
    if number == errno.ENOTDIR:
        return f"{place.shown} is not a folder"
    if number == errno.EACCES:
        return f"{place.shown} may not be read"
    return str(error)
