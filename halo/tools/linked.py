"""What decides from elsewhere in the workspace, because links of `.halo` and `.git` lead to it."""

from collections.abc import Iterable, Iterator
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


def deciding_links(files: Files) -> tuple[Link, ...]:
    """Find the links among `.halo`, `.git` and what decides in `.halo`. Nested ones are not searched."""
    found = [Link(name, leads_to) for name in _names(files) if (leads_to := _leads_to(files, name))]
    return tuple(link for link in found if link.name != link.leads_to)


def other_names(real: str, links: Iterable[Link]) -> Iterator[str]:
    """Yield what else the real path is called because of `links`."""
    for name, leads_to in links:
        if real == leads_to or real.startswith(leads_to + "/"):
            yield name + real[len(leads_to) :]


def _names(files: Files) -> Iterator[str]:
    """Yield `.halo`, `.git`, and the links in `.halo`, also those in linked folders.

    Each real folder is entered once, by the shortest way: links in a circle must not take for ever.
    """
    yield from (".halo", ".git")
    folders, entered = [(".halo", "", 1)], set[str]()
    for folder, known, depth in folders:
        try:
            real = known or files.resolve(folder)
            entries = [] if real in entered else files.entries(real)
        except (OSError, TreeError):
            continue  # nothing there, or nothing that Halo could read either
        entered.add(real)
        for name, kind, link in sorted(entries, key=lambda found: found.link):
            path = f"{folder}/{name}"
            if link:
                yield path
            if kind == "dir" and depth < _DEPTH and name not in _NOT_ENTERED:
                folders.append((path, "" if link else f"{real}/{name}", depth + 1))


def _leads_to(files: Files, name: str) -> str:
    """Return the real path of `name`, also if a tool could still make it; empty if that is nowhere."""
    try:
        return files.destination(name)
    except (OSError, TreeError):
        return ""
