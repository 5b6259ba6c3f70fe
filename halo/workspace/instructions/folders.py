"""Folders of rules that other tools keep: which files are for every prompt, and why the others are not.

Rules for certain paths vary with the files that a turn touches; in a prompt they would change its prefix with
each. Rules on demand are for whoever asks for them. Both stay out, and are named.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from halo.errors import HaloError, LayerError, TreeError
from halo.files.tree import NotFound, Tree, read_part
from halo.records.diagnostics import Diagnostic
from halo.workspace.instructions.front import LENIENT_FRONT, Value, lenient_front, patterns, split_lenient
from halo.workspace.instructions.remarks import aside, limit, unreadable
from halo.workspace.layers import unusable

MOST_RULES = 1_000  # files and folders that are looked at in one folder of rules
_MOST_NAMED = 20  # rules that a remark names

Values = Mapping[str, Value]


class RuleFolder(NamedTuple):
    """A folder of rules: how its files end, and why one stays out of the prompt; empty when it does not."""

    path: str
    suffix: str
    why_aside: Callable[[Values], str]


class Rules(NamedTuple):
    """The sources of the rules for every prompt, in order, and what there is to say of the others."""

    always: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]


def _claude(values: Values) -> str:
    paths = patterns(values.get("paths"))
    return f"paths: {', '.join(paths)}" if paths else ""


def _cursor(values: Values) -> str:
    always = values.get("alwaysApply")
    if always is True:
        return ""
    if isinstance(always, str) and always.lower() == "true":
        return "alwaysApply is a text, not true"
    globs = patterns(values.get("globs"))
    if globs:
        return f"globs: {', '.join(globs)}"
    return "on demand"


# What stands for all files in `applyTo`.
_EVERYTHING = frozenset({"*", "**", "**/*", "**/**"})


def _copilot(values: Values) -> str:
    applies = patterns(values.get("applyTo"))
    if _EVERYTHING.intersection(applies):
        return ""
    return f"applyTo: {', '.join(applies)}" if applies else "on demand"


CLAUDE_RULES = RuleFolder(".claude/rules", ".md", _claude)
CURSOR_RULES = RuleFolder(".cursor/rules", ".mdc", _cursor)
COPILOT_RULES = RuleFolder(".github/instructions", ".instructions.md", _copilot)


def read_rules(tree: Tree, folder: RuleFolder) -> Rules:
    """Sort the rules of a folder and of those below it, in the order of the bytes of their paths.

    Of a rule that stays out only the front matter is an input.
    """
    top = f"workspace:{folder.path}"
    said: list[Diagnostic] = []
    always: list[str] = []
    out: list[tuple[str, str]] = []
    for source in _list(tree, top, folder.suffix, said.append):
        try:
            why = folder.why_aside(_values(tree, source))
        except HaloError as error:
            said.append(unreadable(error, source))
            continue
        if why:
            out.append((source.removeprefix(f"{top}/"), why))
        else:
            always.append(source)
    if out:
        said.append(aside(len(out), len(out) + len(always), out[:_MOST_NAMED], top))
    return Rules(tuple(always), tuple(said))


def _values(tree: Tree, source: str) -> Values:
    try:
        front = read_part(tree, source, LENIENT_FRONT, lenient_front).decode()
    except LayerError:
        tree.read(source)  # the file as a whole is an input then: it may become text
        raise
    return split_lenient(front).values


def _list(tree: Tree, top: str, suffix: str, say: Callable[[Diagnostic], None]) -> list[str]:
    """List the files below `top` that end in `suffix`; folders that are links are not entered."""
    found: list[str] = []
    pending = [top]
    looked_at = 0
    while pending:
        folder = pending.pop()
        try:
            entries = tree.list(folder)
        except NotFound:
            if tree.kind(folder) == "other":
                say(unreadable(unusable(folder), folder))
            continue
        except TreeError as error:
            say(unreadable(error, folder))
            continue
        for entry in entries:
            looked_at += 1
            if looked_at > MOST_RULES:
                say(limit(f"more than {MOST_RULES:,} files; the others are not looked at", top))
                return sorted(found)
            below = f"{folder}/{entry.name}"
            if entry.kind == "dir" and entry.link:
                say(unreadable(TreeError("a link to a folder is not entered"), below))
            elif entry.kind == "dir":
                pending.append(below)
            elif entry.name.endswith(suffix):
                found.append(below)
    return sorted(found)
