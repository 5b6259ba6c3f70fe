"""Reads a shell command line as far as its text is certain. Pure, and no shell.

It knows a part of what bash and sh take in the same way: words, quotes, operators, redirections, groups,
functions, loops, substitutions. Where it meets anything else it stops and says so. What it does read, it
reads as a shell would; what a word becomes by a variable, a substitution or a pattern of files is left open.
"""

import re
from typing import NamedTuple

from halo.tools.shell_words import CommandParts, UnsureError, Word, WordParts

_DEEPEST = 20  # substitutions and groups in each other

_ENDS_WORD = frozenset(" \t\n;&|()<>")
_OPENS = frozenset("*?[{")  # a shell may make other words of one that holds these
_ESCAPED = frozenset('$`"\\')  # by a backslash within double quotes

# Words of such characters that are no patterns: they group, test, or stand for a file.
_ALONE = re.compile(r"(?:\{\}?|\[\[?)(?=[ \t\n;&|)]|\Z)")

_REDIRECTION = re.compile(r"&>>?|<<<|<<|<>|<&|<|>>|>\||>&|>")
_NO_ARGUMENTS = re.compile(r"\([ \t\n]*\)")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*_-])|\$\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*])\}")
_DEFAULT = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*:?[-=?+][A-Za-z0-9_./, -]*\}")
_NUMBER = re.compile(r"\$(?:[#?$!]|\{[#?]\})")


class Lines(NamedTuple):
    """The simple commands of a line, with what is assigned before them; `certain`: there are no others."""

    commands: list[tuple[Word, ...]]
    certain: bool


def read_line(line: str) -> Lines:
    """Read a command line, or several."""
    reader = _Reader(line, [], 0)
    try:
        reader.commands("")
    except UnsureError:
        return Lines(reader.found, certain=False)
    return Lines(reader.found, certain=True)


class _Reader:
    """Reads from `at` on; all commands that it meets go to `found`, those of substitutions too."""

    def __init__(self, text: str, found: list[tuple[Word, ...]], depth: int) -> None:
        self.text, self.at, self.depth = text, 0, depth
        self.found = found

    def commands(self, end: str) -> None:
        """Read up to the end of the text, or behind the parenthesis that ends them."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnsureError
        command = CommandParts(self.found)
        while True:
            self._blanks()
            char = self.text[self.at : self.at + 1]
            if char in ("", ")"):
                command.finish()
                if char != end:
                    raise UnsureError
                self.at += len(char)
                self.depth -= 1
                return
            self._next(char, command)

    def _next(self, char: str, command: CommandParts) -> None:
        if char == "#":
            end = self.text.find("\n", self.at)
            self.at = end if end >= 0 else len(self.text)
        elif char == "(":
            self._parenthesis(command)
        elif char in "<>" and not self._is_substitution():
            self._redirection()
        elif char == "&" and self.text.startswith("&>", self.at):
            command.split()  # sh reads `&` and `>`: another command begins
            self._redirection()
        elif char in "\n;&|":
            if self.text.startswith(";;", self.at):
                raise UnsureError
            command.finish()
            self.at += 1
        else:
            word = self._word()
            if word.bare and word.text.isdigit() and self.text[self.at : self.at + 1] in ("<", ">"):
                return  # the descriptor of a redirection
            command.add(word)

    def _parenthesis(self, command: CommandParts) -> None:
        """Read a group, or what says that a function is defined; its body is read like any other command."""
        if command.words:
            empty = _NO_ARGUMENTS.match(self.text, self.at)
            if empty is None or len(command.words) > 1 or not command.words[0].bare:
                raise UnsureError
            self.at = empty.end()
            command.drop()
            return
        if self.text.startswith("((", self.at):
            raise UnsureError  # arithmetic, which may run commands that stand in variables
        self.at += 1
        self.commands(")")

    def _redirection(self) -> None:
        found = _REDIRECTION.match(self.text, self.at)
        if found is None or found[0] == "<<":
            raise UnsureError
        self.at = found.end()
        self._blanks()
        if self._word() == Word(""):
            raise UnsureError

    def _blanks(self) -> None:
        while True:
            if self.text.startswith("\\\n", self.at):
                self.at += 2
            elif self.text[self.at : self.at + 1] in (" ", "\t"):
                self.at += 1
            else:
                return

    def _find(self, mark: str) -> int:
        found = self.text.find(mark, self.at)
        if found < 0:
            raise UnsureError
        return found

    def _is_substitution(self) -> bool:
        return self.text[self.at : self.at + 2] in ("<(", ">(")

    def _word(self) -> Word:
        made = WordParts()
        start = self.at
        while (char := self.text[self.at : self.at + 1]) and (
            char not in _ENDS_WORD or self._is_substitution()
        ):
            self._piece(char, made, first=self.at == start)
        return made.word()

    def _piece(self, char: str, made: WordParts, *, first: bool) -> None:
        """Read one piece of a word."""
        if char == "\\":
            self._escape(made)
        elif char == "'":
            self.at += 1
            end = self._find("'")
            made.add(self.text[self.at : end], quoted=True)
            self.at = end + 1
        elif char == '"':
            self._double(made)
        elif char == "$":
            self._dollar(made, quoted=False)
        elif char == "`":
            self._backticks(made, quoted=False)
        elif char in "<>":
            self.at += 2
            self.commands(")")
            made.open(quoted=True)
        elif first and (alone := _ALONE.match(self.text, self.at)):
            self.at = alone.end()
            made.add(alone[0], quoted=False)
        elif self._changes(char, first=first):
            self.at += 1
            made.open(quoted=False)
        elif char < " " or char == "\x7f" or char.isspace():  # some shells take other blanks for blanks
            raise UnsureError
        else:
            self.at += 1
            made.add(char, quoted=False)

    def _changes(self, char: str, *, first: bool) -> bool:
        """Tell whether a shell may make something else of an unquoted character."""
        if char == "~":
            return first or self.text[self.at - 1] in ":="
        return char in _OPENS

    def _escape(self, made: WordParts) -> None:
        char = self.text[self.at + 1 : self.at + 2]
        if not char:
            raise UnsureError
        self.at += 2
        if char != "\n":
            made.add(char, quoted=True)

    def _double(self, made: WordParts) -> None:
        self.at += 1
        made.add("", quoted=True)
        while True:
            char = self.text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                self._escape_in_double(made)
            elif char == "$":
                self._dollar(made, quoted=True)
            elif char == "`":
                self._backticks(made, quoted=True)
            elif not char:
                raise UnsureError
            else:
                made.add(char, quoted=True)
                self.at += 1

    def _escape_in_double(self, made: WordParts) -> None:
        char = self.text[self.at + 1 : self.at + 2]
        if char != "\n":
            made.add(char if char in _ESCAPED else f"\\{char}", quoted=True)
        self.at += 2

    def _dollar(self, made: WordParts, *, quoted: bool) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        for pattern, one in ((_NUMBER, True), (_VARIABLE, False), (_DEFAULT, False)):
            found = pattern.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                # "$@" is as many words as there are arguments.
                made.open(quoted=quoted and found[0] not in ("$@", "${@}"), one=one)
                return
        if after == "(" and not self.text.startswith("((", self.at + 1):
            self.at += 2
            self.commands(")")
            made.open(quoted=quoted)
        elif (after and after in "({[") or (not quoted and after and after in "'\""):
            raise UnsureError
        else:
            self.at += 1
            made.add("$", quoted=quoted)

    def _backticks(self, made: WordParts, *, quoted: bool) -> None:
        self.at += 1
        end = self._find("`")
        inner = self.text[self.at : end]
        if "\\" in inner:
            raise UnsureError
        _Reader(inner, self.found, self.depth).commands("")
        self.at = end + 1
        made.open(quoted=quoted)
