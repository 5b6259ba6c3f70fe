"""Rules about where INDEX.md leads: an agent that follows it to nowhere wastes a call."""

import re
from collections.abc import Iterator

from halo.checks.subject import Subject
from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic, Severity
from halo.workspace.layers import Layer, index_layer
from halo.workspace.links import find_links, relative_path


def index_links(subject: Subject) -> Iterator[Diagnostic]:
    """H402: a link in INDEX.md to a file that is not there."""
    layer = index_layer(subject.tree)
    if layer is not None and layer.body:
        for link, line in find_links(layer.body):
            yield from _broken(subject.tree, layer, relative_path(link), line, "warning")


def index_paths(subject: Subject) -> Iterator[Diagnostic]:
    """H402 as a remark: a list item that begins with a path as code. Code may mean something else."""
    layer = index_layer(subject.tree)
    if layer is not None and layer.body:
        for path, line in _listed_paths(layer.body):
            yield from _broken(subject.tree, layer, path, line, "info")


# Ends in a file extension or a slash; no pattern, no command.
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|(?<=[\w-])\.[A-Za-z]\w{0,9})")
_LONGEST = 500


def _listed_paths(text: str) -> Iterator[tuple[str, int]]:
    """Yield the paths in code that list items begin with, each with its line (from 0)."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(text)
    for item, _, block in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type == "list_item_open" and block.type == "inline" and block.children:
            first = block.children[0]
            code = first.content if first.type == "code_inline" else ""
            if len(code) <= _LONGEST and _PATH.fullmatch(code):
                yield code, block.map[0] if block.map else 0


def _broken(tree: Tree, layer: Layer, target: str, line: int, severity: Severity) -> Iterator[Diagnostic]:
    if target and not any(_there(tree, base, target) for base in ("workspace:", "workspace:.halo/")):
        message = f"{target} is not there (links are looked up from the workspace and from .halo/)"
        yield Diagnostic("broken-link", severity, message, layer.source, layer.line + line)


def _there(tree: Tree, base: str, target: str) -> bool:
    parts: list[str] = []
    for part in f"{base.partition(':')[2]}{target}".split("/"):
        if part == ".." and not parts:
            return False  # it leaves the workspace
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    try:
        return tree.kind("workspace:" + "/".join(parts)) in ("file", "dir")
    except HaloError:
        return False
