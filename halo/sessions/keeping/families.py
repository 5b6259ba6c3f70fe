"""Sessions that started others: what stands below one, and lists of them as trees."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from halo.records.headers import Header
from halo.sessions.index.lookup import headers_of_run


class Branch(NamedTuple):
    """A session in a tree; `depth` 0 is at the left."""

    depth: int
    header: Header


def as_tree(headers: Sequence[Header]) -> list[Branch]:
    """Put each session behind the one that started it, in the order in which they stand.

    One whose parent is not among them stands at the left. However parents may be given, each comes once.
    """
    ids = {header.id for header in headers}
    children: dict[str, list[Header]] = {}
    for header in headers:
        children.setdefault(header.parent if header.parent in ids else "", []).append(header)
    found: list[Branch] = []
    seen: set[str] = set()
    # Those on a ring of parents hang from nothing, and come last.
    for start in (*children.get("", ()), *headers):
        todo = [Branch(0, start)]
        while todo:
            branch = todo.pop()
            if branch.header.id not in seen:
                seen.add(branch.header.id)
                found.append(branch)
                below = children.get(branch.header.id, ())
                todo.extend(Branch(branch.depth + 1, header) for header in reversed(below))
    return found


def below(headers: Iterable[Header], top: str) -> list[Branch]:
    """Return everything below the session `top`, parents first; what it started itself has depth 1."""
    tree = as_tree([*headers])
    at = next((n for n, branch in enumerate(tree) if branch.header.id == top), None)
    if at is None:
        return []
    found: list[Branch] = []
    for branch in tree[at + 1 :]:
        if branch.depth <= tree[at].depth:
            break
        found.append(branch._replace(depth=branch.depth - tree[at].depth))
    return found


def family(sessions: str, header: Header) -> list[Branch]:
    """Return a session and everything below it, the session first."""
    run = sorted(headers_of_run(sessions, header.root), key=lambda found: found.id)
    return [Branch(0, header), *below(run, header.id)]
