"""Finds the file and the repository behind a layer, and what is asked of a repository once."""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from halo.errors import TreeError
from halo.files.git_calls import GitAnswer, call_git
from halo.files.roots import ConfinedRoot
from halo.files.tree import split
from halo.workspace.places import Places

# A clone brings no configuration along, but an unpacked archive does.
_TRUSTED_SCOPES = frozenset({"system", "global", "command"})


class GitFile(NamedTuple):
    """A layer as git sees it: its real folder and name, and what Halo reads there.

    `repository` is the folder that holds `.git`, empty where there is none. git must not lie in `workspace`.
    """

    folder: str
    name: str
    data: bytes
    repository: str
    workspace: str

    def git(self, *arguments: str, data: bytes = b"") -> GitAnswer:
        """Ask git in the folder of the file."""
        return call_git(self.folder, *arguments, workspace=self.workspace, data=data)


def find_file(places: Places, source: str) -> GitFile:
    """Find a layer of the workspace or of Halo's home.

    Links are followed to where the file really is, within its root: a global folder is often a link into a
    repository of dotfiles. Raises TreeError and OSError for what cannot be read.
    """
    data = places.tree().read(source)
    scope, relative = split(source)
    root = places.roots[scope]
    real = os.path.join(os.path.realpath(root), *ConfinedRoot(root).resolve(relative).split("/"))
    folder, name = os.path.split(real)
    return GitFile(folder, name, data, _repository(folder), places.workspace)


def _repository(folder: str) -> str:
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def canonical_lines(data: bytes, numbers: Iterable[int]) -> dict[int, int]:
    """Return which line of `data` git calls a line of its canonical text; what is beyond the end is left out.

    Canonical text breaks at CRLF and at a lone CR as well, git at LF alone.
    """
    breaks = [match[0] for match in re.finditer(rb"\r\n|\r|\n", data)]
    if b"\r" not in breaks:
        count = len(breaks) + (not data.endswith(b"\n"))
        return {number: number for number in numbers if number <= count and data}
    at = [1]
    for end in breaks:
        at.append(at[-1] + (end != b"\r"))
    if data.endswith(b"\n"):
        at.pop()
    return {number: at[number - 1] for number in numbers if number <= len(at)}


class Repositories:
    """What is asked of each repository once."""

    def __init__(self) -> None:
        self._filters: dict[str, frozenset[str]] = {}
        self._shallow: dict[str, bool] = {}

    def foreign_filter(self, file: GitFile) -> str | None:
        """Name the filter of `file` that git would run and that the repository itself configured; else None.

        To blame a file, git runs its `clean` filter. A program that the user configured is the user's affair.
        """
        if file.repository not in self._filters:
            self._filters[file.repository] = _foreign_filters(file)
        foreign = self._filters[file.repository]
        if not foreign:
            return None
        answer = file.git("check-attr", "-z", "filter", "--", file.name)
        value = answer.out.split(b"\0")[2:3]
        name = value[0].decode(errors="replace") if value else ""
        return name if name in foreign else None

    def is_shallow(self, file: GitFile) -> bool:
        """Tell whether the history was cut off when the repository was cloned."""
        if file.repository not in self._shallow:
            answer = file.git("rev-parse", "--is-shallow-repository")
            self._shallow[file.repository] = answer.out.strip() == b"true"
        return self._shallow[file.repository]


def _foreign_filters(file: GitFile) -> frozenset[str]:
    answer = file.git(
        "config",
        "--show-scope",
        "--name-only",
        "-z",
        "--get-regexp",
        r"^filter\..*\.(clean|process)$",
    )
    if answer.code not in (0, 1):  # 1: there are none
        raise TreeError(
            f"git config failed: {answer.said}", file=file.folder, hint="git 2.26 or newer is needed"
        )
    words = answer.out.decode(errors="replace").split("\0")
    return frozenset(
        key.removeprefix("filter.").rpartition(".")[0]
        for scope, key in zip(words[::2], words[1::2], strict=False)
        if scope not in _TRUSTED_SCOPES
    )
