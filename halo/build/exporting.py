"""Puts exported files beside the work of others: what Halo did not write is never overwritten or removed."""

import os
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from halo.errors import LayerError, TreeError, UsageError
from halo.files import ops
from halo.files.atomic import create_file, replace_file
from halo.files.canonical import canonical_text
from halo.files.tree import DiskTree, Tree
from halo.workspace.directories import MOST, look_into
from halo.workspace.instructions.mark import state_of

# made: nothing is there; renewed: an older export is; gone: an export that nothing stands behind any more;
# blocked: something else is there, and `why` says what.
Action = Literal["made", "renewed", "kept", "gone", "blocked"]


class Step(NamedTuple):
    """What is to be done with one path."""

    path: str
    action: Action
    text: str = ""
    why: str = ""


def plan_export(folder: str, wanted: Mapping[str, str], name: str) -> tuple[Step, ...]:
    """Compare what is `wanted` (paths to texts) with what is in `folder`, in order of path.

    Files called `name` that Halo exported before and that are not wanted any more go.
    """
    tree = DiskTree({"workspace": folder})
    steps = {path: _step(folder, tree, path, text) for path, text in wanted.items()}
    for path in _named(tree, name):
        if path not in steps:
            step = _obsolete(folder, tree, path)
            if step is not None:
                steps[path] = step
    return tuple(steps[path] for path in sorted(steps))


def carry_out(folder: str, steps: tuple[Step, ...]) -> None:
    """Write and remove what the steps say. Raises `UsageError`, and does nothing, if one is blocked."""
    blocked = [step for step in steps if step.action == "blocked"]
    if blocked:
        raise UsageError(
            "nothing was written: " + "; ".join(f"{step.path} {step.why}" for step in blocked),
            hint="move it away, or take its text into .halo/ and remove it",
        )
    for step in steps:
        path = os.path.join(folder, *step.path.split("/"))
        if step.action == "made" and not create_file(path, step.text.encode()):
            raise UsageError(
                f"{step.path} has just been made by somebody else", hint="look at it, and try again"
            )
        if step.action == "renewed":
            replace_file(path, step.text.encode())
        if step.action == "gone":
            ops.unlink(path)


def _step(folder: str, tree: Tree, path: str, text: str) -> Step:
    why = _in_the_way(folder, tree, path)
    if why:
        return Step(path, "blocked", why=why)
    there = _read(tree, path)
    if there is None:
        return Step(path, "made", text)
    return Step(path, "kept" if there == text else "renewed", text)


def _obsolete(folder: str, tree: Tree, path: str) -> Step | None:
    there = _read(tree, path)
    if there is None or state_of(there) == "foreign":
        return None
    why = _in_the_way(folder, tree, path)
    return Step(path, "blocked", why=why) if why else Step(path, "gone")


def _in_the_way(folder: str, tree: Tree, path: str) -> str:
    """Say why a path may not be written; empty when it may."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        if os.path.islink(os.path.join(folder, *parts[:depth])):
            return "is a link, or lies behind one"
    there = _read(tree, path)
    if there is None:
        kind = tree.kind(f"workspace:{path}")
        return "" if kind == "absent" else "is there, and is no text file"
    return {
        "ours": "",
        "changed": "was changed since Halo exported it",
        "foreign": "is there, and Halo did not write it",
    }[state_of(there)]


def _read(tree: Tree, path: str) -> str | None:
    try:
        return canonical_text(tree.read(f"workspace:{path}"), path)
    except (TreeError, LayerError):
        return None


def _named(tree: Tree, name: str) -> Iterator[str]:
    """Find the files called `name`, where rules of directories are looked for."""
    pending = [""]
    for _ in range(MOST):
        if not pending:
            return
        directory = pending.pop()
        path = f"{directory}/{name}" if directory else name
        try:
            pending += look_into(tree, directory).below
            if tree.kind(f"workspace:{path}") == "file":
                yield path
        except TreeError:
            continue  # what may not be looked into was not exported to either
