"""`@path` imports of CLAUDE.md and GEMINI.md: what a reference leads to, and the text with what it brings in.

A path is relative to the file that names it. What lies outside the roots, does not exist or is there already
stays a reference, and a remark says why (docs/reference/layers.md, "Imports").
"""

import posixpath
from collections.abc import Callable
from typing import NamedTuple

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.instructions.account import Account
from halo.workspace.instructions.foreign import Foreign, folder_of, is_markdown, read_foreign, shown
from halo.workspace.instructions.references import Reference, find_references
from halo.workspace.instructions.remarks import circle, duplicate, exported, limit, refused
from halo.workspace.instructions.weaving import Run, Weaver
from halo.workspace.layers import Layer

MOST_HOPS = 5

# What may follow a path in a sentence; taken away only where nothing is there with it.
_AFTER = ".,;:!?)]}>\"'*_"

_LONGEST = 1_000  # characters; nothing longer is a path

# The part of the user's home that is a root.
_GLOBAL = "~/.halo/global/"

# What of a `.halo/` folder people write for prompts. Halo's own files would make a prompt depend on itself,
# and settings are no text.
_LAYERS = ("INSTRUCTIONS.md", "INDEX.md", "prompts", "agents", "skills")


class Expansion(NamedTuple):
    """A text with its imports.

    `brought`: at least one came in. `bare`: it says nothing but references to what the prompt has already.
    """

    runs: tuple[Run, ...]
    brought: bool = False
    bare: bool = False


def unexpanded(layer: Layer) -> Expansion:
    """Take a text as it is."""
    return Expansion((Run(layer.body, layer.source, layer.line, verbatim=True),))


class Importer:
    """Expands the references of the texts of one prompt."""

    def __init__(self, tree: Tree, account: Account, say: Callable[[Diagnostic], None]) -> None:
        self._tree = tree
        self._account = account
        self._say = say

    def expand(self, layer: Layer) -> Expansion:
        """Expand the references of a file and of what it imports, five files deep."""
        return self._expand(layer, (layer.source,))

    def _expand(self, layer: Layer, chain: tuple[str, ...]) -> Expansion:
        if "@" not in layer.body or not is_markdown(layer.source):
            return unexpanded(layer)
        if not self._account.may_search(layer.body):
            self._say(limit("too much text to be searched for imports", layer.source))
            return unexpanded(layer)
        weaver = Weaver(layer)
        brought, known = False, list[Reference]()
        for reference in find_references(layer.body):
            if not self._account.may_follow():
                line = layer.line + reference.line
                self._say(limit("too many references; the others stay text", layer.source, line))
                break
            found = self._look_up(reference, layer, chain)
            if isinstance(found, Layer):
                weaver.bring(reference, found, self._expand(found, (*chain, found.source)).runs)
                brought = True
            elif found:
                known.append(reference)
        bare = bool(known) and not brought and not _without(layer.body, known).strip(" \t\n-*+>#")
        return Expansion(weaver.weave(), brought, bare)

    def _look_up(self, reference: Reference, layer: Layer, chain: tuple[str, ...]) -> Layer | bool:
        """Return what is to be brought in; if there is nothing, whether the prompt has it already."""
        name, line = reference.path, layer.line + reference.line
        if len(name) > _LONGEST:
            return False
        name, source, why = self._locate(name, layer)
        if source in chain:
            self._say(circle((*chain[chain.index(source) :], source), layer.source, line))
            return False
        found = None
        if source and len(chain) > MOST_HOPS:
            why = f"it is more than {MOST_HOPS} imports deep"
        elif source:
            try:
                found = read_foreign(self._tree, source)
            except HaloError as error:
                why = error.message
        if why and (source or "/" in name or "." in name.rstrip(_AFTER)):
            self._say(refused(name, why, layer.source, line))
        return self._admit(found, layer.source, line) if found is not None else False

    def _locate(self, name: str, layer: Layer) -> tuple[str, str, str]:
        """Find the file that a reference names: its name without the end of its sentence, and the source.

        Where there is no such file the source is empty, and the third says why.
        """
        spelling, refusal = name, ""
        for spelling in dict.fromkeys((name, name.rstrip(_AFTER) or name)):
            source, refusal = _resolve(spelling, layer.source)
            refusal = refusal or self._taken(source)
            if not refusal:
                return spelling, source, ""
        return spelling, "", refusal

    def _taken(self, source: str) -> str:
        """Say what stands in the way of reading a file; empty for nothing."""
        try:
            kind = self._tree.kind(source)
        except HaloError as error:
            return error.message
        if kind == "other":
            return "a link to nowhere or out of its root, or a special file"
        return {"file": "", "dir": "is a folder", "absent": "there is no such file"}[kind]

    def _admit(self, found: Foreign, where: str, line: int) -> Layer | bool:
        if found.state != "foreign":
            self._say(exported(found, where, line))
            return True
        if holder := self._account.holder(found.layer):
            self._say(duplicate(found.layer, holder, where, line))
            return True
        if not self._account.take(found.layer):
            self._say(limit(f"there is no room for {shown(found.layer.source)}", where, line))
            return False
        self._account.note(found.layer)
        return found.layer


def _resolve(name: str, importer: str) -> tuple[str, str]:
    """Make a tree path of what a reference says; the path, or none and why."""
    root, folder = folder_of(importer).split(":", 1)
    if name.startswith(_GLOBAL):
        root, folder, name = "global", "", name.removeprefix(_GLOBAL)
    if name.startswith(("/", "~")):
        return "", "names a place of one machine; a path is relative to the file that it stands in"
    relative = posixpath.normpath(posixpath.join(folder, name))
    if relative in (".", "..") or relative.startswith(("../", "/")):
        return "", "leads out of the workspace" if root == "workspace" else "leads out of the global folder"
    return ("", "is no text for prompts") if _closed(root, relative) else (f"{root}:{relative}", "")


# Hidden folders of the workspace's root whose files are instructions.
_OPEN = frozenset((name, 0) for name in (".agents", ".claude", ".cursor", ".gemini", ".github"))


def _closed(root: str, relative: str) -> bool:
    """Tell whether a path leads to what no prompt may hold: files of git, of Halo, of the user alone."""
    parts = relative.split("/")
    if root == "global":
        return not relative.endswith(".md") or relative == "USER.md" or any(p.startswith(".") for p in parts)
    lowered = [part.lower() for part in parts]
    if ".halo" not in lowered:
        # Hidden ones hold keys (`.env`) and history (`.git`); folders of instructions are the exception.
        return any(part.startswith(".") and (part, i) not in _OPEN for i, part in enumerate(lowered))
    below = parts[len(parts) - lowered[::-1].index(".halo") :]
    return not below or below[0] not in _LAYERS or not relative.endswith(".md")


def _without(text: str, references: list[Reference]) -> str:
    kept, position = [], 0
    for reference in references:
        kept.append(text[position : reference.start])
        position = reference.end
    return "".join([*kept, text[position:]])
