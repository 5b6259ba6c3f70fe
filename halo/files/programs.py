"""Finds programs that Halo runs by itself: never in a workspace, where an agent could have put one."""

import os
import shutil


def find_program(name: str, workspace: str) -> str | None:
    """Return the path of a program along PATH; None where there is none.

    Folders of PATH that are not absolute do not count, nor what lies in `workspace` or is reached through it;
    with an empty one there is none to keep out of.
    """
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # With its folder: by its name alone Windows looks into the current one first.
        found = shutil.which(os.path.join(folder, name)) if os.path.isabs(folder) else None
        if found is not None and not (workspace and _is_of(workspace, folder, found)):
            return found
    return None


def _is_of(workspace: str, folder: str, program: str) -> bool:
    """Tell whether a workspace holds the program, its folder or a link on the way to them, by any name."""
    tops = {os.path.abspath(workspace), os.path.realpath(workspace)}
    places = (
        os.path.abspath(program),
        os.path.realpath(program),
        os.path.join(os.path.realpath(folder), "x"),
    )
    return any(_below(place, top) for place in places for top in tops)


def _below(path: str, folder: str) -> bool:
    return os.path.normcase(path).startswith(os.path.normcase(folder.rstrip(os.sep) + os.sep))
