"""Reads a file that belongs to another tool as a layer, leniently; what Halo exported is known again."""

import posixpath
from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Scope
from halo.workspace.instructions.front import Split, split_lenient
from halo.workspace.instructions.mark import State, state_of
from halo.workspace.layers import Layer, read_text

_MARKDOWN = (".md", ".mdc", ".markdown", ".cursorrules")


class Foreign(NamedTuple):
    """A layer of another tool; `state` says whether Halo wrote it."""

    layer: Layer
    state: State


def is_markdown(source: str) -> bool:
    """Tell whether a file may have front matter and references."""
    return source.lower().endswith(_MARKDOWN)


def read_foreign(tree: Tree, source: str) -> Foreign | None:
    """Read a file of another tool; None when it is absent or blank.

    Raises `TreeError` and `LayerError` for what cannot be read, and for what is not text.
    """
    text = read_text(tree, source)
    if text is None:
        return None
    _, body, line = split_lenient(text) if is_markdown(source) else Split({}, text, 1)
    stripped = body.lstrip()
    if not stripped:
        return None
    line += body[: len(body) - len(stripped)].count("\n")
    layer = Layer(source, scope_of(source), stripped.rstrip(), line)
    return Foreign(layer, state_of(text))


def scope_of(source: str) -> Scope:
    """Return the scope of a source in the workspace or in the global folder."""
    return "global" if source.startswith("global:") else "workspace"


def shown(source: str) -> str:
    """Name a source as its readers know it: by its path in the workspace."""
    return source.removeprefix("workspace:")


def folder_of(source: str) -> str:
    """Return the folder of a source, with its root: `workspace:` for a file of the workspace's root."""
    root, _, relative = source.partition(":")
    return f"{root}:{posixpath.dirname(relative)}"
