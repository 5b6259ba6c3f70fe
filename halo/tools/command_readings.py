"""What a command line runs, and how far that is certain. Pure, and no shell: see `policy`.

Every command that the line runs is among its readings, or one that may be anything. What a program does by
itself is not looked at: a script, a Makefile, an alias of git. Programs that run other commands, or a
language of their own, because their arguments say so, are known by name.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from halo.tools.known_programs import (
    BY_THE_SHELL,
    CARRIERS,
    DIRECT,
    TAKES_ONE,
    is_builtin_readable,
    is_program_readable,
)
from halo.tools.shell_reader import read_line
from halo.tools.shell_words import Word

_MOST = 300  # commands of one line that are looked at
_LONGEST = 200_000  # characters of them together
_DEEPEST = 4  # `sh -c "sh -c ..."`

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
# What shells take code or orders from.
_SHELLS_OWN = frozenset(
    {"BASH_ENV", "ENV", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS"}
)

_SHELLS = frozenset({"sh", "bash", "dash", "ash"})
_SHELL_OPTION = re.compile(r"-[elux]+")
_SHELL_TEXT = re.compile(r"-[elux]*c[elux]*")

# Arguments of `find` behind which a command stands.
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FILE = "{}"  # what `find` puts a file in the place of
_SECRET = "{{"  # noqa: S105  # begins the place of a secret, which is put in when the command runs


class Reading(NamedTuple):
    """A command: its words with a blank between them, without quotes.

    `whole`: nothing follows that only a shell knows. `sure`: it is a command, not maybe arguments of one.
    """

    text: str
    whole: bool = True
    sure: bool = True


ANYTHING = Reading("", whole=False, sure=False)


def readings(line: str) -> list[Reading]:
    """Return every command that a line runs, once for each way to write its program."""
    found = _Readings()
    found.line(line)
    return list(found.found)


class _FullError(Exception):
    """There is more than is looked at."""


class _Readings:
    def __init__(self) -> None:
        self.found: dict[Reading, None] = {}
        self._depth = self._steps = self._size = 0

    def line(self, line: str) -> None:
        """Take in a line, which may be part of another."""
        if self._depth >= _DEEPEST:
            self._anything()
            return
        self._depth += 1
        lines = read_line(line)
        try:
            for words in lines.commands:
                self._command(tuple(_until(_SECRET, word) for word in words))
        except _FullError:
            self._anything()
        if not lines.certain:
            self._anything()
        self._depth -= 1

    def _anything(self) -> None:
        self.found[ANYTHING] = None

    def _command(self, words: tuple[Word, ...]) -> None:
        at = 0
        while at < len(words) and _ASSIGNMENT.match(words[at].text):
            if _orders(words[at]):
                self._anything()
            at += 1
        self._run(words[at:])

    def _run(self, words: tuple[Word, ...], *, sure: bool = True, builtin: bool = True) -> None:
        """Take in a command without assignments; `builtin`: it may be one of the shell's own."""
        if not words:
            return
        if not words[0].whole:
            self._anything()
            return
        self._note(words, sure=sure)
        name, rest = posixpath.basename(words[0].text).lower(), words[1:]
        if name in DIRECT or name in CARRIERS:
            self._behind(name, rest, sure=sure)
        elif name == "xargs":
            self._fed(rest)
        elif name in ("find", "gfind"):
            self._for_files(rest)
        elif name == "eval":
            self._text(rest[1:] if rest and rest[0].text == "--" else rest)
        elif name in _SHELLS:
            self._shell(rest)
        elif not (is_program_readable(name, rest) and (not builtin or is_builtin_readable(name, rest))):
            self._anything()

    def _note(self, words: tuple[Word, ...], *, sure: bool) -> None:
        known = [word.text for word in words]
        whole = all(word.whole for word in words)
        if not whole:
            known = known[: next(i for i, word in enumerate(words) if not word.whole) + 1]
        program = posixpath.basename(known[0])
        for name in dict.fromkeys((known[0], program, program.lower())):
            text = " ".join([name, *known[1:]])
            self._size += len(text)
            self.found[Reading(text, whole, sure)] = None
        self._steps += 1
        if self._steps > _MOST or self._size > _LONGEST:
            raise _FullError

    def _behind(self, name: str, rest: tuple[Word, ...], *, sure: bool) -> None:
        """Take in what a program runs that stands behind it."""
        builtin = name in BY_THE_SHELL
        if any(_orders(word) for word in rest) or (name == "env" and any(map(_splits, _options(rest)))):
            self._anything()
        at = int(name in TAKES_ONE)
        while name not in TAKES_ONE and at < len(rest) and _is_set(rest[at]):
            at += 1
        before = [word for word in rest[: at + 1] if not _is_set(word)]
        if name in DIRECT and all(w.whole and not w.text.startswith("-") for w in before):
            self._run(rest[at:], sure=sure, builtin=builtin)
            return
        for start in range(len(rest)):
            self._run(rest[start:], sure=False, builtin=builtin)

    def _fed(self, rest: tuple[Word, ...]) -> None:
        """Take in what xargs runs: further arguments come from its input, and may be put in anywhere."""
        if any(not word.whole or set("IiJ") & set(word.text) for word in _options(rest)):
            self._anything()
        for start in range(len(rest)):
            self._run((*rest[start:], Word("", whole=False)), sure=False, builtin=False)

    def _for_files(self, rest: tuple[Word, ...]) -> None:
        """Take in what `find` runs."""
        if not all(word.whole or (word.text.startswith((".", "/")) and word.one) for word in rest):
            self._anything()
        for at, word in enumerate(rest):
            if word.text in _EXECUTING:
                end = next((i for i in range(at, len(rest)) if rest[i].text in (";", "+")), len(rest))
                self._run(tuple(_until(_FILE, w) for w in rest[at + 1 : end]), builtin=False)

    def _text(self, words: tuple[Word, ...]) -> None:
        """Take in words that a shell is given as a line."""
        if all(word.whole for word in words):
            self.line(" ".join(word.text for word in words))
        else:
            self._anything()

    def _shell(self, rest: tuple[Word, ...]) -> None:
        """Take in what a shell runs: a line that stands there, or who knows what."""
        for at, word in enumerate(rest):
            if not word.whole:
                break
            if _SHELL_TEXT.fullmatch(word.text):
                if rest[at + 1 :] and rest[at + 1].text[:1] in ("-", "+"):
                    break  # more options: the line stands behind them
                self._text(rest[at + 1 : at + 2])
                return
            if not _SHELL_OPTION.fullmatch(word.text):
                break
        self._anything()


def _options(rest: tuple[Word, ...]) -> Iterator[Word]:
    """Yield what may be options of a program, before the command that it runs, with their arguments."""
    after_option = False
    for word in rest:
        option = word.text.startswith("-") or not word.whole
        if not option and not after_option and not _is_set(word):
            return
        yield word
        after_option = option


def _is_set(word: Word) -> bool:
    """Tell whether `env` or `sudo` takes a word for a variable, whatever that is called."""
    return word.one and "=" in word.text and not word.text.startswith("-")


def _orders(word: Word) -> bool:
    """Tell whether a word assigns what a shell takes orders from."""
    assigned = _ASSIGNMENT.match(word.text)
    return assigned is not None and assigned[1] in _SHELLS_OWN


def _splits(word: Word) -> bool:
    """Tell whether `env` may take a word for a line to be split."""
    return word.text.startswith("--s") or (word.text.startswith("-") and "S" in word.text)


def _until(mark: str, word: Word) -> Word:
    """Keep of a word what stands before the place of something that is put in later."""
    before, found, _ = word.text.partition(mark)
    return Word(before, whole=False, bare=False) if found else word


def may_fit(reading: Reading, pattern: str) -> bool:
    """Tell whether a command that begins like a reading may fit a pattern of `fnmatch`."""
    parts = re.findall(r"\[!?\]?[^\]]*\]|.", pattern, re.DOTALL)
    places = _passing({0}, parts)
    for char in reading.text:
        places = _passing(
            {
                at if parts[at] == "*" else at + 1
                for at in places
                if at < len(parts) and (parts[at] in ("*", char) or fnmatchcase(char, parts[at]))
            },
            parts,
        )
        if not places:
            return False
    return not reading.whole or len(parts) in places


def _passing(places: Iterable[int], parts: list[str]) -> set[int]:
    """Return the places with those behind a `*`, which may stand for nothing."""
    found = set(places)
    for place in places:
        behind = place
        while behind < len(parts) and parts[behind] == "*":
            behind += 1
            found.add(behind)
    return found
