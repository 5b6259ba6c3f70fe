"""Paths of this machine, looked at without trusting the links in them."""

import os
from collections.abc import Iterator

_MOST_LINKS = 40  # as in the kernel


def within(path: str, folder: str) -> bool:
    """Tell whether `path` is `folder` or lies below it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def between(path: str, folder: str) -> Iterator[str]:
    """Yield the folders above `path` and below `folder`, the outermost first."""
    at = folder.rstrip("/")
    for part in path[len(at) :].strip("/").split("/")[:-1]:
        at = f"{at}/{part}"
        yield at


def entries_of(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield what lies in `folder`; nothing where it cannot be read, or is none."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def passed(path: str) -> Iterator[str]:
    """Yield every place that looking up the absolute `path` goes through, one link after the other.

    A place is named by its real folder; it may be a link itself, then what that leads to comes next.
    """
    todo = path.split("/")[::-1]
    at, links = "", 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        here = f"{at}/{part}"
        yield here
        try:
            target = os.readlink(here)
        except OSError:
            at = here
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        at = "" if target.startswith("/") else at
        todo += target.split("/")[::-1]
