"""Markdown layers: which file serves a layer, its body and its front matter."""

import re
from typing import Any

import msgspec

from halo.errors import LayerError, TreeError
from halo.files.canonical import canonical_text
from halo.files.tree import NotFound, Tree
from halo.records.artifacts import Scope
from halo.records.diagnostics import Diagnostic
from halo.records.targets import Platform
from halo.workspace.hidden import blanked
from halo.workspace.yamldoc import YamlDocument, load_yaml


class Layer(msgspec.Struct, frozen=True):
    """A source file that contributes text.

    `source` is its tree path; `body` has neither front matter nor blank edges and starts on line
    `line` of the file; `front` is the parsed front matter, None where there is none. `hides` names the files
    of other scopes that this one takes the place of.
    """

    source: str
    scope: Scope
    body: str
    line: int
    front: YamlDocument | None = None
    hides: tuple[str, ...] = ()

    def value(self, key: str) -> Any:
        """Return a value of the front matter, None where it is absent."""
        return self.front.value.get(key) if self.front else None


# Remarks and blank lines, then a key.
_MAPPING = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[\w.\"'-]+[ \t]*:[ \t\n]")


def split_front_matter(text: str, source: str) -> tuple[YamlDocument | None, str, int]:
    """Split canonical `text` into front matter, body and the body's first line (from 1).

    Front matter is a YAML mapping between a `---` on the first line and the next line that is `---`.
    Two rules around something else are text. Raises `LayerError` for YAML that does not parse, if it begins
    as a mapping does: prose between two rules is not broken YAML.
    """
    if not text.startswith("---\n"):
        return None, text, 1
    end = text.find("\n---\n", 3)
    if end < 0:
        return None, text, 1
    block = text[4 : end + 1]
    try:
        document = load_yaml(block, source, first_line=2)
    except LayerError:
        if _MAPPING.match(block):
            raise
        return None, text, 1
    if not isinstance(document.value, dict | None):
        return None, text, 1
    if document.value is None:
        document = YamlDocument({}, {}, source)
    body = text[end + 5 :]
    return document, body, 1 + text.count("\n", 0, end + 5)


def one_line(text: str) -> str:
    """Return `text` on one line, for headings and lists; what nobody sees becomes a space."""
    return " ".join(blanked(text).split())


def unusable(source: str) -> TreeError:
    """Build the error for a layer's place that is taken by something that cannot be read.

    Something of another scope must not answer in its place without a word.
    """
    return TreeError(
        "neither a file nor a folder of this root: a link to nowhere or out of it, or a special file",
        file=source,
        hint="put the text itself there",
    )


def read_text(tree: Tree, source: str) -> str | None:
    """Read a file as canonical text; None when it is absent. Raises `TreeError`, `LayerError`."""
    try:
        data = tree.read(source)
    except NotFound:
        if tree.kind(source) == "other":
            raise unusable(source) from None
        return None
    return canonical_text(data, source)


def read_layer(tree: Tree, source: str, scope: Scope) -> Layer | None:
    """Read one Markdown layer; None when it is absent or blank (the two are the same everywhere)."""
    text = read_text(tree, source)
    if text is None:
        return None
    front, body, line = split_front_matter(text, source)
    stripped = body.lstrip()
    if not stripped and front is None:
        return None
    line += body[: len(body) - len(stripped)].count("\n")
    return Layer(source, scope, stripped.rstrip(), line, front)


def _first(tree: Tree, *candidates: tuple[str, Scope]) -> Layer | None:
    for i, (source, scope) in enumerate(candidates):
        layer = read_layer(tree, source, scope)
        if layer is not None:
            hidden = tuple(s for s, _ in candidates[i + 1 :] if tree.kind(s) == "file")
            return msgspec.structs.replace(layer, hides=hidden) if hidden else layer
    return None


def shared_layer(tree: Tree, name: str) -> Layer | None:
    """Read `name` of the workspace's `.halo/`, else the one of the global folder, which it then hides."""
    return _first(tree, (f"workspace:.halo/{name}", "workspace"), (f"global:{name}", "global"))


def user_layer(tree: Tree) -> Layer | None:
    """USER.md: the workspace's, else the global one. None means that the user is unknown: bootstrap.

    One with front matter alone has an empty body: the user is known, but there is nothing to say.
    """
    return shared_layer(tree, "USER.md")


def instructions_layer(tree: Tree) -> Layer | None:
    """INSTRUCTIONS.md: the workspace's suppresses the global one, so that a clone is self-contained."""
    return shared_layer(tree, "INSTRUCTIONS.md")


def index_layer(tree: Tree) -> Layer | None:
    """INDEX.md: of the workspace's root only."""
    return _first(tree, ("workspace:.halo/INDEX.md", "workspace"))


def directory_layers(tree: Tree, directory: str) -> tuple[tuple[str, Layer], ...]:
    """Return the rules on the way down to `directory`, outermost first, without the root's own.

    Each comes with its directory; levels without a file are skipped.
    """
    found: list[tuple[str, Layer]] = []
    parts = directory.split("/") if directory else []
    for depth in range(1, len(parts) + 1):
        level = "/".join(parts[:depth])
        layer = _first(tree, (f"workspace:{level}/.halo/INSTRUCTIONS.md", "workspace"))
        if layer is not None and layer.body:
            found.append((level, layer))
    return tuple(found)


class PromptScope(msgspec.Struct, frozen=True):
    """The files of `prompts/<name>/` that serve a target, in order; `hides`: folders of other scopes."""

    scope: Scope
    layers: tuple[Layer, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    hides: tuple[str, ...] = ()


def prompt_scope(tree: Tree, name: str, platform: Platform) -> PromptScope:
    """Read `prompts/<name>/`: the workspace's folder replaces the global one, that one the packaged.

    An existing empty folder stays empty. Files ending in `.md`, in the order of their names' bytes;
    on Windows `X.windows.md` replaces `X.md`, elsewhere it is ignored. Falling back from a missing
    folder to the packaged templates is normal; nothing is seeded unless `halo init` is asked to. One that
    is there and cannot be read counts as missing, with a diagnostic.
    """
    remarks: list[Diagnostic] = []
    for i, (folder, scope) in enumerate(_SCOPE_FOLDERS):
        path = f"{folder}/{name}"
        try:
            files = _markdown_in(tree, path)
        except TreeError as error:
            remarks.append(Diagnostic("prompts-unreadable", "warning", f"not used: {error.message}", path))
            continue
        if files is not None:
            chosen = (read_layer(tree, f"{path}/{n}", scope) for n in _for_platform(files, platform))
            return PromptScope(
                scope,
                tuple(layer for layer in chosen if layer is not None and layer.body),
                tuple(remarks),
                hides=tuple(
                    hidden
                    for other, _ in _SCOPE_FOLDERS[i + 1 :]
                    if _is_folder(tree, hidden := f"{other}/{name}")
                ),
            )
    remarks.append(Diagnostic("prompts-missing", "warning", f"there is no prompts/{name}/ anywhere"))
    return PromptScope("builtin", (), tuple(remarks))


def _markdown_in(tree: Tree, folder: str) -> list[str] | None:
    """List the Markdown files of a folder, None where there is none. Raises TreeError for what is none."""
    match tree.kind(folder):
        case "absent":
            return None
        case "other":
            raise unusable(folder)
        case _:
            return [e.name for e in tree.list(folder) if e.name.endswith(".md") and e.kind != "dir"]


def _is_folder(tree: Tree, path: str) -> bool:
    try:
        return tree.kind(path) == "dir"
    except TreeError:
        return False  # what cannot be looked at hides nothing and is hidden by nobody


_SCOPE_FOLDERS: tuple[tuple[str, Scope], ...] = (
    ("workspace:.halo/prompts", "workspace"),
    ("global:prompts", "global"),
    ("builtin:prompts", "builtin"),
)

_WINDOWS = ".windows.md"


def _for_platform(names: list[str], platform: Platform) -> list[str]:
    variants = {n for n in names if n.endswith(_WINDOWS)}
    if platform != "windows":
        return [n for n in names if n not in variants]
    replaced = {n.removesuffix(_WINDOWS) + ".md" for n in variants}
    return [n for n in names if n not in replaced]
