"""Completion in a chat: commands, skills, models, `@scope` directories, `@file` paths."""

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from halo.errors import HaloError
from halo.files.git_calls import call_git
from halo.files.visible import visible
from halo.sessions.commands.reports import Row
from halo.sessions.commands.table import COMMANDS
from halo.sessions.typed_files import Shelf
from halo.tools.masks import masked
from halo.tools.walking import SKIPPED

_MOST = 200  # entries of a folder
_PATIENCE = 2.0  # seconds for git

_COMMAND = re.compile(r"/(?P<typed>\S*)\Z")
_MODEL = re.compile(r"/(?:model|new)\s+(?P<typed>\S*)\Z", re.IGNORECASE)
_WORD = re.compile(r"/(?P<name>[a-z]+)\s+(?P<typed>\S*)\Z", re.IGNORECASE)
_PATH = re.compile(r'(?<!\S)@(?P<marker>scope|file)[ \t]+(?P<typed>"[^"\n]*|[^\s"]*)\Z')
_MARKER = re.compile(r"(?<!\S)@(?P<typed>[^\s@]*)\Z")


class Candidate(NamedTuple):
    """What could stand in the place of the last `length` characters; `about` is for people."""

    text: str
    length: int
    about: str = ""


class Entry(NamedTuple):
    """Something in a folder of the workspace."""

    name: str
    is_folder: bool


class Words(NamedTuple):
    """Where completions come from."""

    commands: Callable[[], list[Row]]
    models: Callable[[], list[str]]
    entries: Callable[[str], list[Entry]]


def candidates(before: str, words: Words) -> Iterator[Candidate]:
    """Yield what the text `before` the cursor could go on with."""
    if match := _COMMAND.match(before):
        for row in words.commands():
            name = row.usage.split(" ")[0]
            if name.lower().startswith(before.lower()):
                yield Candidate(name, len(before), row.summary)
    elif match := _MODEL.match(before):
        yield from _starting(match["typed"], words.models())
    elif (match := _WORD.match(before)) and (spec := COMMANDS.get(match["name"].lower())):
        yield from _starting(match["typed"], list(spec.words))
    elif match := _PATH.search(before):
        yield from _paths(match["typed"], words.entries, folders=match["marker"] == "scope")
    elif match := _MARKER.search(before):
        typed = match["typed"]
        for marker, about in (("scope", "rules of a directory"), ("file", "the text of a file")):
            if marker.startswith(typed):
                yield Candidate(f"@{marker} ", len(typed) + 1, about)
        if typed:
            for found in _paths(typed, words.entries, folders=False):
                yield Candidate(f"@file {found.text}", len(typed) + 1)


def _starting(typed: str, known: list[str]) -> Iterator[Candidate]:
    """Yield the words that begin with what was typed, then those that contain it."""
    lowered = typed.lower()
    for word in sorted(known, key=lambda word: (not word.lower().startswith(lowered), word)):
        if lowered in word.lower():
            yield Candidate(word, len(typed))


def _paths(typed: str, entries: Callable[[str], list[Entry]], *, folders: bool) -> Iterator[Candidate]:
    folder, _, part = typed.removeprefix('"').rpartition("/")
    for entry in entries(folder):
        if not entry.name.startswith(part) or (folders and not entry.is_folder):
            continue
        path = posixpath.join(folder, entry.name) + ("/" if entry.is_folder else "")
        if '"' in path or visible(path) != path:
            continue  # no marker can name it
        quoted = " " in path or typed.startswith('"')
        closed = '"' if quoted and not entry.is_folder else ""
        yield Candidate(f'"{path}{closed}' if quoted else path, len(typed))


def listing(shelf: Shelf, workspace: str) -> Callable[[str], list[Entry]]:
    """Return what lists a folder of the workspace: nothing outside it, of Halo's own, or that git ignores."""

    def entries(folder: str) -> list[Entry]:
        try:
            found = shelf.root.entries(posixpath.normpath(folder) if folder else "")
        except (OSError, HaloError):
            return []
        named = [
            Entry(each.name, each.kind == "dir")
            for each in found
            if each.kind in ("file", "dir")
            and each.name not in SKIPPED
            and not masked(posixpath.join(folder, each.name), shelf.hidden)
        ]
        ignored = _ignored(workspace, [posixpath.join(folder, entry.name) for entry in named])
        left = [entry for entry in named if posixpath.join(folder, entry.name) not in ignored]
        return sorted(left)[:_MOST]

    return entries


def _ignored(workspace: str, paths: list[str]) -> frozenset[str]:
    """Return which of the paths git ignores; none where there is no git, or no repository."""
    if not paths:
        return frozenset()
    # `./`, for what begins with a colon is more than a name to this command, which takes none literally.
    data = b"\0".join(f"./{path}".encode("utf-8", "surrogateescape") for path in paths)
    ask = ("--no-literal-pathspecs", "check-ignore", "-z", "--stdin")
    try:
        answer = call_git(workspace, *ask, data=data, seconds=_PATIENCE)
    except (HaloError, OSError):
        return frozenset()
    if answer.code not in (0, 1):
        return frozenset()
    found = (p.decode("utf-8", "surrogateescape") for p in answer.out.split(b"\0") if p)
    return frozenset(path.removeprefix("./") for path in found)
