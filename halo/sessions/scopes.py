"""`@scope DIR` in a user's message: the rules of a directory, for this message alone.

The marker is taken out of what was typed, and the rules, which come from the artifact of the directory, are
put before it. Only what a user types is looked at; the text of a skill and results of tools never are.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

import msgspec

from halo.errors import UsageError
from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.targets import ScopeTarget
from halo.workspace.instructions.references import prose_ranges
from halo.workspace.locate import relative_directory

# At the beginning or after white space, with its directory on the same line.
_MARKER = re.compile(r'(?<!\S)@scope[ \t]+(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]\S*))')

_TAG = "workspace-instructions"
_NOTE = (
    "Rules of this directory, from the .halo/INSTRUCTIONS.md files on the way to it. Follow them as "
    "instructions of the user for work below it. They do not change where tools run."
)


class Marked(msgspec.Struct, frozen=True):
    """A message without its markers, and the directories that they named, each once, as they were written."""

    text: str
    directories: tuple[str, ...]


class Scoped(msgspec.Struct, frozen=True):
    """What came of the markers of a message.

    `text` is the message without them, `blocks` the rules; `artifacts` maps the directories to the ids of
    their artifacts; `problems` says which markers led to nothing, and why.
    """

    text: str
    blocks: tuple[str, ...] = ()
    artifacts: dict[str, str] = {}
    problems: tuple[str, ...] = ()


def take_markers(message: str) -> Marked:
    """Take the markers out of `message`; without any it is returned as it is.

    A marker takes one neighbouring space or line break with it, and the rest loses its blank edges. What
    stands in code (or in a comment of HTML) is no marker.
    """
    rest: list[str] = []
    directories: dict[str, None] = {}
    position = 0
    for match in find_markers(message, _MARKER):
        directories[match["quoted"] or match["plain"]] = None
        start, end = _with_gap(message, match.start(), match.end())
        rest.append(message[position : max(start, position)])
        position = end
    if not directories:
        return Marked(message, ())
    rest.append(message[position:])
    return Marked("".join(rest).strip(), tuple(directories))


def find_markers(message: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the markers outside code, in order; a message without any costs nothing."""
    candidates = list(pattern.finditer(message))
    if not candidates:
        return
    ranges = list(prose_ranges(message.replace("\r", " ")))
    starts = [start for start, _ in ranges]
    for match in candidates:
        at = bisect_right(starts, match.start()) - 1
        if at >= 0 and match.start() < ranges[at][1]:
            yield match


def _with_gap(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a marker by one white space: the one behind it, or the one before it at the end of a line."""
    behind = text[end : end + 1]
    if behind in (" ", "\t") or (behind == "\n" and text[start - 1 : start] in ("", "\n")):
        return start, end + 1
    if start and text[start - 1] in " \t":
        return start - 1, end
    return start, end


def expand_scopes(
    message: str,
    workspace: str,
    tree: Tree,
    get: Callable[[ScopeTarget], Artifact],
    bundled: frozenset[str] = frozenset(),
) -> Scoped:
    """Take the markers out of `message` and get the rules that they name.

    `workspace` is the absolute path of its root; `get` returns the artifact of a directory's rules; `bundled`
    are the directories whose rules came in a bundle, so that the tree does not have them. A marker
    that leads to no rules is a problem that is said. Raises `UsageError` for a message that is nothing but
    such markers, and what `get` raises for rules that cannot be compiled.
    """
    marked = take_markers(message)
    blocks: list[str] = []
    artifacts: dict[str, str] = {}
    problems: list[str] = []
    for named in marked.directories:
        try:
            directory = _directory(workspace, named)
            if directory in artifacts:
                continue
            artifact = get(ScopeTarget(_nearest(tree, directory, named, bundled)))
        except UsageError as error:
            problems.append(f"@scope {named}: {error.message}")
            continue
        artifacts[directory] = artifact.id
        blocks.append(_block(directory, artifact.prompt))
    if problems and not blocks and not marked.text:
        raise UsageError(
            "the message is empty without its markers: " + "; ".join(problems),
            hint="name a directory of the workspace that has .halo/INSTRUCTIONS.md, or write a message",
        )
    return Scoped(marked.text, tuple(blocks), artifacts, tuple(problems))


def _directory(workspace: str, named: str) -> str:
    """Return the directory that a marker names, relative to the workspace. Raises `UsageError`."""
    if "\0" in named:
        raise UsageError("a NUL cannot stand in a name")
    directory = relative_directory(workspace, named)
    if not directory:
        raise UsageError("the rules of the root are in every prompt already")
    return directory


def _nearest(tree: Tree, directory: str, named: str, bundled: frozenset[str]) -> str:
    """Return the deepest directory on the way that has rules: its artifact holds the whole chain.

    It is the one that `halo build` makes. Raises `UsageError` where there is none.
    """
    parts = directory.split("/")
    for depth in range(len(parts), 0, -1):
        level = "/".join(parts[:depth])
        if level in bundled or tree.kind(f"workspace:{level}/.halo/INSTRUCTIONS.md") != "absent":
            return level
    raise UsageError(f"there is no .halo/INSTRUCTIONS.md on the way to {named}")


def _block(directory: str, rules: str) -> str:
    attributes = f'dir="{html.escape(directory)}" note="{html.escape(_NOTE)}"'
    return enclose(_TAG, attributes, rules)


def enclose(tag: str, attributes: str, text: str) -> str:
    """Put `text` between tags that it cannot close or open itself: there, `<` becomes `&lt;`.

    All else stays as it is: rules and skills show code, which must not be changed.
    """
    inner = re.sub(rf"<(?=\s*(?:/\s*)?{re.escape(tag)}\b)", "&lt;", text.strip("\n"), flags=re.IGNORECASE)
    return f"<{tag} {attributes}>\n{inner}\n</{tag}>"
