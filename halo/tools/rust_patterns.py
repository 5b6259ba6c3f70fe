"""Translates regular expressions from Python's `regex` to Rust's, as far as both mean the same. Pure.

Both are large languages with small differences, so this knows few constructs and gives up on all others. What
it writes names every character by its number and every class by its ranges: no spelling is left that the
other side could read in another way.
"""

import re
from typing import NamedTuple

_MOST_REPEATS = 1000

# `\n` stands in no line, and ripgrep does not take it.
_SETS = {"d": "0-9", "w": "0-9A-Z_a-z", "s": r"\t\x{b}-\r\x{20}"}
_ESCAPED = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}

_REPEAT = re.compile(r"\{(?:(\d{1,9})(,(\d{0,9}))?|,(\d{1,9}))\}")
_GROUP = re.compile(r"\((?:\?:|\?P<[A-Za-z_][A-Za-z0-9_]*>|(?!\?))")
# Pairs that mean operations on sets to one of the two.
_SET_OPERATIONS = ("--", "&&", "||", "~~")


class RustPattern(NamedTuple):
    """A pattern that matches a line exactly where the original does.

    `ascii_only`: for lines of ASCII alone; both sides have their own idea of what a letter is beyond that.
    """

    text: str
    ascii_only: bool


def translate(pattern: str) -> RustPattern | None:
    """Translate a pattern that `regex` has accepted; None where it uses more than is known here."""
    folds = pattern.startswith("(?i)")
    found = _Translation(pattern.removeprefix("(?i)"))
    try:
        text = found.whole()
    except _UnknownError:
        return None
    if folds and not pattern.isascii():
        return None
    return RustPattern(f"(?i:{text})" if folds else text, folds or found.ascii_only)


class _UnknownError(Exception):
    """A construct that may not mean the same to both."""


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._rest = pattern
        self.ascii_only = False

    def whole(self) -> str:
        made: list[str] = []
        depth = 0
        repeatable = False  # what stands last can be repeated
        while self._rest:
            char = self._rest[0]
            if char in "*+?{":
                made.append(self._repetition(repeatable))
                repeatable = False
                continue
            group = _GROUP.match(self._rest) if char == "(" else None
            if char == "(":
                if group is None:
                    raise _UnknownError
                self._take(group.end())
                depth += 1
                made.append("(?:")
            elif char == ")":
                self._take(1)
                depth -= 1
                made.append(")")
            elif char == "[":
                made.append(self._set())
            elif char == "\\":
                made.append(self._escape())
            elif char in "^$|.":
                made.append(self._take(1))
            else:
                made.append(_literal(self._take(1)))
            repeatable = char not in "(|^$" and made[-1] != r"(?-u:\b)"
        if depth:
            raise _UnknownError
        return "".join(made)

    def _take(self, count: int) -> str:
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def _repetition(self, repeatable: bool) -> str:
        if not repeatable:
            raise _UnknownError
        if self._rest[0] == "{":
            found = _REPEAT.match(self._rest)
            if found is None:
                raise _UnknownError
            self._take(found.end())
            least, comma, most, only_most = found.groups()
            if any(int(number or 0) > _MOST_REPEATS for number in (least, most, only_most)):
                raise _UnknownError
            made = f"{{0,{only_most}}}" if only_most else f"{{{least}{',' if comma else ''}{most or ''}}}"
        else:
            made = self._take(1)
        if self._rest.startswith("?"):  # how much it prefers to take decides nothing about a line
            self._take(1)
        if self._rest[:1] and self._rest[0] in "*+?{":
            raise _UnknownError
        return made

    def _escape(self) -> str:
        self._take(1)
        char = self._take(1)
        if char == "b":
            self.ascii_only = True
            return r"(?-u:\b)"
        if char.lower() in _SETS:
            self.ascii_only = True
            return f"[{'^' if char.isupper() else ''}{_SETS[char.lower()]}]"
        return _literal(_escaped(char))

    def _set(self) -> str:
        self._take(1)
        negated = self._rest.startswith("^")
        if negated:
            self._take(1)
        made: list[str] = []
        while not (made and self._rest.startswith("]")):
            first = self._member()
            if self._rest.startswith("-") and self._rest[1:2] != "]":
                self._take(1)
                last = self._member()
                if len(first) != 1 or len(last) != 1 or first > last:
                    raise _UnknownError
                made.append(f"{_literal(first)}-{_literal(last)}")
            else:
                made.append(_literal(first) if len(first) == 1 else first)
        self._take(1)
        return f"[{'^' if negated else ''}{''.join(made)}]"

    def _member(self) -> str:
        """Return a character of a set, or the ranges of a class."""
        if not self._rest or self._rest[0] == "[" or self._rest.startswith(_SET_OPERATIONS):
            raise _UnknownError
        char = self._take(1)
        if char != "\\":
            return char
        char = self._take(1)
        if char in _SETS:
            self.ascii_only = True
            return _SETS[char]
        return "\n" if char == "n" else _escaped(char)


def _escaped(char: str) -> str:
    if char in _ESCAPED:
        return _ESCAPED[char]
    if not char.isascii() or char.isalnum() or not char.isprintable() or char in ("", " "):
        raise _UnknownError
    return char


def _literal(char: str) -> str:
    if "\ud800" <= char <= "\udfff" or char == "\n":
        raise _UnknownError
    return f"\\x{{{ord(char):x}}}"
