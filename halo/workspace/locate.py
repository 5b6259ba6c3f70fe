"""Finds the workspace and Halo's home. Imported before anything heavy: keep it small."""

import os
from collections.abc import Mapping

from halo.errors import NoWorkspaceError, StartError

HALO_DIR = ".halo"


def halo_home(environ: Mapping[str, str]) -> str:
    """Return Halo's home: `HALO_HOME`, else `~/.halo`."""
    named = environ.get("HALO_HOME")
    if named:
        return os.path.abspath(os.path.expanduser(named))
    return os.path.join(environ.get("HOME") or os.path.expanduser("~"), HALO_DIR)


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

    Halo's own home is not a workspace, though it may be called `.halo` too. Raises `NoWorkspaceError`.
    """
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        raise NoWorkspaceError(f"no such folder: {start}", hint="name an existing workspace with -w")
    own = os.path.realpath(home)
    while True:
        halo = os.path.join(folder, HALO_DIR)
        if os.path.isdir(halo) and os.path.realpath(halo) != own:
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            raise NoWorkspaceError(
                f"no {HALO_DIR}/ folder in {start} or above it", hint=f"make one: halo init {start}"
            )
        folder = parent
