"""Files elsewhere in the workspace that decide all the same, because links of `.halo` and `.git` lead to them."""

from collections.abc import Iterator
from typing import NamedTuple

from halo.errors import TreeError
from halo.tools.sandbox.base import Files

# How far below `.halo` what decides stands: `agents/<id>/agent.yaml`. Of records only the top matters.
_DEPTH = 3
_NOT_ENTERED = frozenset({"sessions", "secrets", "build", "artifacts", "traces", "batch"})


class Link(NamedTuple):
    """A link, and the real path that it leads to, which need not be there yet."""

    name: str
    leads_to: str


class _ToldError(Exception):
    def __init__(self, real: str) -> None:
        super().__init__(real)
        self.real = real


def deciding_links(files: Files) -> list[Link]:
    """Find the links among `.halo`, `.git` and what decides in `.halo`. Nested ones are not searched."""
    found = [Link(name, leads_to) for name in _names(files) if (leads_to := _leads_to(files, name))]
    return [link for link in found if link.name != link.leads_to]


def other_names(real: str, links: list[Link]) -> Iterator[str]:
    """Yield what else the real path is called because of `links`."""
    for name, leads_to in links:
        if real == leads_to or real.startswith(leads_to + "/"):
            yield name + real[len(leads_to) :]


def _names(files: Files) -> Iterator[str]:
    """Yield `.halo`, `.git` if they are links, and the links in `.halo`, also those in linked folders."""
    yield from (".halo", ".git")
    folders = [(".halo", 1)]
    while folders:
        folder, depth = folders.pop()
        try:
            entries = files.entries(folder)
        except (OSError, TreeError):
            continue  # nothing there, or nothing that Halo could read either
        for name, kind, link in entries:
            path = f"{folder}/{name}"
            if link:
                yield path
            if kind == "dir" and depth < _DEPTH and name not in _NOT_ENTERED:
                folders.append((path, depth + 1))


def _leads_to(files: Files, name: str) -> str:
    """Return where a file written under `name` would stand, or the folder that it is; empty if nowhere.

    Whoever writes tells it before anything is written. A dangling link leads to what a tool could make.
    """

    def tell(real: str) -> None:
        raise _ToldError(real)

    try:
        files.write(name, b"", tell)
    except _ToldError as told:
        return told.real
    except IsADirectoryError:
        return _folder(files, name)
    except (OSError, TreeError):
        pass
    return ""


def _folder(files: Files, name: str) -> str:
    try:
        return files.resolve(name)
    except (OSError, TreeError):
        return ""
