"""Finds the workspace and Halo's home. Imported before anything heavy: keep it small."""

import os
from collections.abc import Mapping

from halo.errors import NoWorkspaceError, StartError, UsageError

HALO_DIR = ".halo"

# In `.halo/`, where a bundle was unpacked: it takes the place of layers (`halo.build.bundled`).
BUNDLE = "bundle.json"


def halo_home(environ: Mapping[str, str]) -> str:
    """Return Halo's home: `HALO_HOME`, else `~/.halo`."""
    named = environ.get("HALO_HOME")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    return os.path.join(user_home(environ), HALO_DIR)


def user_home(environ: Mapping[str, str]) -> str:
    """Return the user's home: `HOME`, else what the system says."""
    return environ.get("HOME") or os.path.expanduser("~")


def templates_folder() -> str:
    """Return the folder of the packaged templates: inside the wheel, or beside an editable checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for candidate in (
        os.path.join(package, "_templates"),
        os.path.join(os.path.dirname(package), "templates"),
    ):
        if os.path.isdir(candidate):
            return candidate
    raise StartError("Halo's templates are missing from this installation", hint="reinstall halo-make")


def find_workspace(start: str, home: str) -> str:
    """Return the nearest folder with a `.halo/`, from `start` upwards.

    Halo's own home is not a workspace, though it may be called `.halo` too; and a `.halo/` that holds
    INSTRUCTIONS.md alone, or is a link, is not one where a workspace lies above it: these are the rules of a
    directory in that. Raises `NoWorkspaceError`.
    """
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        raise NoWorkspaceError(f"no such folder: {start}", hint="name an existing workspace with -w")
    own = os.path.realpath(home)
    scope = ""
    while True:
        halo = os.path.join(folder, HALO_DIR)
        if os.path.isdir(halo) and os.path.realpath(halo) != own:
            # A link may lead out of here, so it is not looked into.
            if not os.path.islink(halo) and os.listdir(halo) != ["INSTRUCTIONS.md"]:
                return folder
            scope = scope or folder
        parent = os.path.dirname(folder)
        if parent == folder and scope:
            return scope
        if parent == folder:
            raise NoWorkspaceError(
                f"no {HALO_DIR}/ folder in {start} or above it", hint=f"make one: halo init {start}"
            )
        folder = parent


def relative_directory(workspace: str, directory: str) -> str:
    """Return `directory` (absolute, or relative to the workspace) as a posix path below the workspace.

    Empty for the workspace itself. Raises `UsageError` for one that is outside or does not exist.
    """
    root = os.path.realpath(workspace)
    given = os.path.realpath(os.path.join(workspace, directory))
    if given != root and not given.startswith(root.rstrip(os.sep) + os.sep):
        raise UsageError(f"the directory {directory} is outside the workspace {root}")
    if not os.path.isdir(given):
        raise UsageError(f"there is no directory {directory} in the workspace")
    if not os.fsencode(given).decode("utf-8", "replace").isprintable():
        raise UsageError("the directory has a name that is not plain UTF-8", hint="rename it")
    return "" if given == root else os.path.relpath(given, root).replace(os.sep, "/")
