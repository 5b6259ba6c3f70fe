"""Where a text stands that is not in a prompt, and why it is not in.

No rule of composition is known here: what manifests hide tells, and what is compiled for other targets.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import msgspec

from halo.build.builder import Builder
from halo.build.trace.origins import PromptLine, prompt_lines
from halo.build.trace.search import matching_lines
from halo.errors import HaloError
from halo.files.canonical import canonical_text
from halo.files.tree import Tree
from halo.records.artifacts import Artifact, Manifest
from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, Target
from halo.workspace.directories import find_directories
from halo.workspace.ids import shelves

Reason = Literal["hidden", "form", "target", "few-shot", "unused", "unread"]


class Elsewhere(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a layer that is not in the prompt.

    `why`: `hidden`, by the source `by`; `form`, line `by` of the prompt was made from it; `target`, it is in
    what is compiled as `by`; `few-shot`, it is sent as an example before the conversation; `unused`, other
    lines of the file are in the prompt; `unread`, nothing that was compiled for the answer reads the file.
    """

    text: str
    source: str
    line: int
    why: Reason
    by: str = ""


class Search(NamedTuple):
    """What was found, and what could not be looked at: source or target, with the reason."""

    found: tuple[Elsewhere, ...]
    unread: tuple[str, ...]


class _Hit(NamedTuple):
    text: str
    source: str
    line: int


class _Other(NamedTuple):
    target: Target
    prompt: str
    manifest: Manifest
    lines: list[PromptLine]


def find_elsewhere(
    builder: Builder, target: AgentTarget, artifact: Artifact, pattern: re.Pattern[str]
) -> Search:
    """Look for `pattern` in the layers, and in the other prompts of the same agent. Publishes no artifact."""
    tree = builder.places.tree()
    manifest = artifact.manifest
    own = _Other(target, artifact.prompt, manifest, prompt_lines(artifact.prompt, manifest))
    unread: list[str] = []
    hits = list(_layer_hits(tree, pattern, unread))
    variants = list(_compile(builder, tree, _variants(target), unread))
    hidden = {source for source in (hit.source for hit in hits) if _hider(source, [manifest])}
    named = _named(target, (hit.source for hit in hits if hit.source not in hidden))
    others = [*variants, *_compile(builder, tree, named[:_MOST_TARGETS], unread)]
    if len(named) > _MOST_TARGETS:
        unread.append(
            f"{len(named) - _MOST_TARGETS:,} more agents, skills and directories whose files have it"
        )
    found = {(one.source, one.line): one for one in _judge(hits, own, others)}
    for one in _made_for(variants, pattern):
        found.setdefault((one.source, one.line), one)
    return Search(tuple(found.values()), tuple(unread))


def _judge(hits: Iterable[_Hit], own: _Other, others: list[_Other]) -> Iterator[Elsewhere]:
    """Say of each hit why the prompt `own` lacks it."""
    used = {span.source for segment in own.manifest.segments for span in segment.spans}
    examples = {shot.source for shot in own.manifest.few_shot_sources}
    forms = _forms(own.lines)
    places: dict[tuple[str, int], str] = {}
    for other in others:
        for line in other.lines:
            for origin in line.origins:
                if origin.how == "verbatim":
                    places.setdefault((origin.source, origin.line), other.target.label)
    for hit in hits:
        place = places.get((hit.source, hit.line), "")
        if hider := _hider(hit.source, [own.manifest]):
            yield Elsewhere(*hit, "hidden", hider)
        elif form := forms.get((hit.source, hit.line)):
            yield Elsewhere(*hit, "form", str(form))
        elif place:
            yield Elsewhere(*hit, "target", place)
        elif hit.source in examples:
            yield Elsewhere(*hit, "few-shot")
        elif hit.source in used:
            yield Elsewhere(*hit, "unused")
        elif hider := _hider(hit.source, [other.manifest for other in others]):
            yield Elsewhere(*hit, "hidden", hider)
        else:
            yield Elsewhere(*hit, "unread")


def _forms(lines: list[PromptLine]) -> dict[tuple[str, int], int]:
    """Return the first line of the prompt that says something of each line of a layer."""
    found: dict[tuple[str, int], int] = {}
    for derived in (False, True):
        for line in lines:
            for origin in line.origins:
                # The divider above a section comes from the section's first line, and says nothing.
                if (origin.how == "derived") is derived and origin.text.strip("- "):
                    found.setdefault((origin.source, origin.line), line.number)
    return found


def _hider(source: str, manifests: list[Manifest]) -> str:
    """Return the source that stands where `source`, or its folder, would have stood; "" for none."""
    for manifest in manifests:
        for segment in manifest.segments:
            if any(source == hidden or source.startswith(hidden + "/") for hidden in segment.hides):
                return segment.source
    return ""


# The targets that may hold what the prompt lacks


def _variants(target: AgentTarget) -> list[Target]:
    """Return the same agent in the other role, on the other platform, with nothing left out."""
    replace = msgspec.structs.replace
    found: list[Target] = [
        replace(target, role="sub" if target.role == "root" else "root"),
        replace(target, platform="windows" if target.platform == "posix" else "posix"),
    ]
    if target.mode != "full":
        found.append(replace(target, mode="full"))
    return found


_MOST_TARGETS = 50  # compiled for one answer, besides the variants

# The second: a folder of skills in the user's home is a root of its own.
_FOLDER = re.compile(r"(?:[:/](agents|skills)/|^(?:agents|claude)-(skills):)([^/]+)/")
_RULES = re.compile(r"workspace:(.+)/\.halo/INSTRUCTIONS\.md")


def _named(target: AgentTarget, sources: Iterable[str]) -> list[Target]:
    """Return the targets whose own folders hold `sources`, the agent of `target` left out."""
    found: dict[Target, None] = {}
    for source in sources:
        if rules := _RULES.fullmatch(source):
            found[ScopeTarget(rules[1])] = None
        elif (folder := _FOLDER.search(source)) and "skills" in (folder[1], folder[2]):
            found[SkillTarget(folder[3])] = None
        elif folder and folder[3] != target.agent:
            found[AgentTarget(folder[3])] = None
    return list(found)


def _compile(builder: Builder, tree: Tree, targets: Iterable[Target], unread: list[str]) -> Iterator[_Other]:
    """Yield what `targets` are, from fresh artifacts or else compiled in memory; failures go to `unread`."""
    from halo.compiler.compile import compile_target

    for target in targets:
        try:
            fresh = builder.status(target).artifact
            result = fresh if fresh is not None else compile_target(tree, target)
        except HaloError as error:
            unread.append(f"{target.label}: {error.message}")
            continue
        lines = prompt_lines(result.prompt, result.manifest)
        yield _Other(target, result.prompt, result.manifest, lines)


def _made_for(variants: Iterable[_Other], pattern: re.Pattern[str]) -> Iterator[Elsewhere]:
    """Find what other variants of the agent say and no layer does: headings and the like."""
    for other in variants:
        for number in matching_lines(other.prompt, pattern):
            line = other.lines[number - 1]
            origin = line.origins[0]
            yield Elsewhere(line.text, origin.source, origin.line, "target", other.target.label)


# The layers

# What Halo makes, and values, which may be secret.
_NO_LAYERS = frozenset({"artifacts", "build", "sessions", "traces", "batch", "evo"})
_MOST_FILES = 5_000


def _layer_hits(tree: Tree, pattern: re.Pattern[str], unread: list[str]) -> Iterator[_Hit]:
    """Find `pattern` in every file that could be a layer."""
    for looked_at, source in enumerate(_files(tree, unread)):
        if looked_at == _MOST_FILES:
            unread.append(f"{source} and what follows: there are more than {_MOST_FILES:,} files")
            return
        try:
            text = canonical_text(tree.read(source), source)
        except HaloError as error:
            unread.append(f"{source}: {error.message}")
            continue
        if numbers := list(matching_lines(text, pattern)):
            lines = text.split("\n")
            yield from (_Hit(lines[number - 1], source, number) for number in numbers)


# Of other tools; the settings say which of them are read.
_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".github/copilot-instructions.md")
_FOLDERS = (".agents/skills", ".claude", ".cursor/rules", ".github/instructions")


def _files(tree: Tree, unread: list[str]) -> Iterator[str]:
    own = ("workspace:.halo", "global:", "builtin:", *(f"workspace:{name}" for name in _FOLDERS))
    of_user = (shelf.folder for shelf in shelves(tree, "skills") if shelf.foreign and shelf.scope == "global")
    for root in (*own, *of_user):
        yield from _below(tree, root, unread)
    for name in _INSTRUCTIONS:
        if tree.kind(f"workspace:{name}") == "file":
            yield f"workspace:{name}"
    for directory in find_directories(tree).with_rules:
        yield f"workspace:{directory}/.halo/INSTRUCTIONS.md"


def _below(tree: Tree, folder: str, unread: list[str]) -> Iterator[str]:
    try:
        entries = tree.list(folder) if tree.kind(folder) == "dir" else ()
    except HaloError as error:
        unread.append(f"{folder}: {error.message}")
        return
    for entry in entries:
        path = folder + ("" if folder.endswith(":") else "/") + entry.name
        if entry.kind == "dir" and not entry.link and not entry.name.startswith("."):
            if path.removeprefix("workspace:.halo/") not in _NO_LAYERS:
                yield from _below(tree, path, unread)
        elif entry.kind == "file" and _may_be_layer(path):
            yield path


def _may_be_layer(path: str) -> bool:
    *_, folder, name = f"/{path}".split("/")
    few_shot = folder == "fewshots" and name.endswith(".yaml")
    return few_shot or name.endswith((".md", ".mdc")) or name == "agent.yaml"
