"""The Agent Skills specification to the letter, for `halo check`. Loading is lenient; this is not.

The rules are those of the specification of 2026-08-09. Halo's own keys are allowed besides it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.workspace.hidden import find_hidden, named
from halo.workspace.ids import kind_or_other
from halo.workspace.links import find_links, relative_path
from halo.workspace.skills.front import SkillFile, read_skill_file
from halo.workspace.skills.oddities import oddities_of, without_description
from halo.workspace.skills.reading import Skill, remarks_on

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_LONGEST_NAME = 64  # characters, as the next two
_LONGEST_DESCRIPTION = 1024
_LONGEST_COMPATIBILITY = 500
_MOST_LINES = 500  # recommended
_MOST_TOKENS = 5000  # recommended

_KEYS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_OWN_KEYS = frozenset({"requires-access", "disable-model-invocation", "user-invocable"})

Say = Iterator[Diagnostic]


class _Checked(NamedTuple):
    """One skill: its file as it was read, its folder's name, and its place."""

    file: SkillFile
    folder: str
    source: str

    def value(self, key: str) -> Any:
        return self.file.values.get(key)

    def line(self, key: str) -> int:
        return self.file.lines.get(key, 1)


def check_skill(tree: Tree, skill: Skill, tokens: Callable[[bytes], int]) -> tuple[Diagnostic, ...]:
    """Check a skill; `tokens` counts those of a text. What loading it says is said here, too.

    Raises `TreeError` when it cannot be read.
    """
    data = tree.read(skill.source)
    file = read_skill_file(data)
    checked = _Checked(file, skill.folder.rsplit("/", 1)[-1].rpartition(":")[2], skill.source)
    found = [*without_description(skill), *remarks_on(file, skill.source), *oddities_of(tree, skill)]
    for rule in (_name, _description, _keys, _values, _hidden):
        found.extend(rule(checked))
    found.extend(_length(checked, tokens))
    found.extend(_links(checked, tree, skill.folder))
    return tuple(sorted(found, key=lambda d: (d.line, d.code, d.message)))


def _name(checked: _Checked) -> Say:
    """Check the name: required, equal to the folder's, lower case, at most 64 characters."""
    name = checked.value("name")
    if not name:
        wrong = ["there is no name in the front matter"]
    else:
        wrong = []
        if name != checked.folder:
            wrong.append(f"the name {name[:80]!a} is not that of the folder, {checked.folder!a}")
        if not _NAME.match(name):
            wrong.append("a name is lower-case letters, digits and single hyphens between them")
        if len(name) > _LONGEST_NAME:
            wrong.append(f"the name has {len(name)} characters; {_LONGEST_NAME} are allowed")
    for message in wrong:
        yield Diagnostic("skill-name", "warning", message, checked.source, checked.line("name"))


def _description(checked: _Checked) -> Say:
    """Check the description: at most 1,024 characters."""
    length = len(checked.value("description") or "")
    if length > _LONGEST_DESCRIPTION:
        yield Diagnostic(
            "skill-description",
            "warning",
            f"the description has {length:,} characters; {_LONGEST_DESCRIPTION:,} are allowed",
            checked.source,
            checked.line("description"),
        )


def _keys(checked: _Checked) -> Say:
    """Allow the keys of the specification and Halo's own."""
    for key in checked.file.values:
        if key not in _KEYS | _OWN_KEYS:
            yield Diagnostic(
                "skill-keys",
                "warning",
                f"the key {key[:80]!a} is not in the specification; what others need belongs into metadata",
                checked.source,
                checked.line(key),
            )


def _values(checked: _Checked) -> Say:
    """Check what the specification says of the optional keys."""
    compatibility, metadata = checked.value("compatibility"), checked.value("metadata")
    wrong: dict[str, str] = {}
    if not isinstance(checked.value("license"), str | None):
        wrong["license"] = "a text"
    if "compatibility" in checked.file.values and not (
        isinstance(compatibility, str) and 0 < len(compatibility) <= _LONGEST_COMPATIBILITY
    ):
        wrong["compatibility"] = f"a text of 1 to {_LONGEST_COMPATIBILITY} characters"
    if "metadata" in checked.file.values and not (
        isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    ):
        wrong["metadata"] = "a map of texts"
    tools = checked.value("allowed-tools")
    if not isinstance(tools, str | None) or (tools and "," in re.sub(r"\([^()]*\)", "", tools)):
        wrong["allowed-tools"] = "one text, tools separated by blanks"
    for key, kind in wrong.items():
        yield Diagnostic("skill-value", "warning", f"{key} is {kind}", checked.source, checked.line(key))


def _hidden(checked: _Checked) -> Say:
    """Allow no character that a reader does not see."""
    for line, found in groupby(find_hidden(checked.file.text), key=lambda hidden: hidden.line):
        yield Diagnostic("hidden-characters", "error", named(found), checked.source, line)


def _length(checked: _Checked, tokens: Callable[[bytes], int]) -> Say:
    """Measure the body: fewer than 500 lines and 5,000 tokens are recommended."""
    body = checked.file.body
    sizes = ((body.count("\n") + 1, _MOST_LINES, "lines"), (tokens(body.encode()), _MOST_TOKENS, "tokens"))
    for size, most, unit in sizes:
        if size >= most:
            yield Diagnostic(
                "skill-length",
                "info",
                f"the body has {size:,} {unit}; fewer than {most:,} are recommended, with files beside it",
                checked.source,
                checked.file.line,
            )


def _links(checked: _Checked, tree: Tree, folder: str) -> Say:
    """Follow the links: to files of the folder that are there."""
    said: set[tuple[str, int]] = set()
    for address, offset in find_links(checked.file.body):
        path, line = relative_path(address), checked.file.line + offset
        parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
        if not parts or (path, line) in said:
            continue
        said.add((path, line))
        shown = ascii(path[:120])
        if ".." in parts or "\0" in path:
            message = f"the link {shown} leads out of the skill's folder, which is all that comes with it"
        elif kind_or_other(tree, f"{folder}/{'/'.join(parts)}") not in ("file", "dir"):
            message = f"the link {shown} leads to no file of the skill"
        else:
            continue
        yield Diagnostic("skill-link", "warning", message, checked.source, line)
