"""What the user's settings hide (`general.tools.hidden`), as paths below a root."""

import os
import posixpath
from collections.abc import Iterable

from halo.tools.addresses import rest_below
from halo.tools.masks import Hidden, name_parts
from halo.tools.sandbox.base import Files

_WINDOWS = os.name == "nt"


def hidden_below(root: Files, names: Iterable[str], workspace: Files) -> Hidden:
    """Return what lies at or below `root` of the paths that are hidden; they are relative to `workspace`.

    Links are followed as they are now: a hidden link hides what it leads to, by every name. What holds the
    root hides all of it.
    """
    found = []
    for name in names:
        rest = _rest(root, name, workspace)
        if rest is not None:
            found.append(name_parts(rest))
    return tuple(found)


def _rest(root: Files, name: str, workspace: Files) -> str | None:
    """Return a hidden path relative to a root, "" for the root itself; None for one elsewhere."""
    if not root.path:  # in memory, where nothing has another name
        rest = posixpath.normpath(name.replace(os.sep, "/"))
        if os.path.isabs(name) or rest == ".." or rest.startswith("../"):
            return None
        return "" if rest == "." else rest
    hidden = _real(os.path.join(workspace.path, name))
    top = _real(root.path)
    if rest_below(top, hidden, windows=_WINDOWS) is not None:
        return ""
    return rest_below(hidden, top, windows=_WINDOWS)


def _real(path: str) -> str:
    return os.path.realpath(path).replace(os.sep, "/")
