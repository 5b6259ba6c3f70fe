"""Puts secrets into a shell command without the shell, or anybody who looks at it, seeing them as text.

`{{notes.params.token}}` becomes a reference to a variable of the command's environment, quoted so that it
stays one word wherever it stood: the value is expanded by the shell, never read as code. For that the quoting
around each placeholder must be known. Where the shell's grammar leaves it open, the command is refused.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from halo.tools.base import ToolFailure

PLACEHOLDER = re.compile(r"\{\{\s*([\w-]+\.(?:params|secrets)\.[\w-][\w.-]*)\s*\}\}")

# What reads its arguments as code once more.
_READS_AGAIN = re.compile(r"(?:^|[\s;|&(])(eval|(?:\S*/)?(?:ba|da|z|k|a)?sh\s+(?:-\S+\s+)*-\w*c)(?=\s|$)")

_SIMPLE_BRACES = re.compile(r"\$\{\w+\}")
_HEREDOC = re.compile(r"<<(-?)[ \t]*((?:[^\s;|&<>()'\"\\]|\\.|'[^']*'|\"[^\"]*\")+)")


class Substituted(NamedTuple):
    """A command with references in the place of placeholders, and the variables that it needs."""

    command: str
    environment: dict[str, str]


def substitute(command: str, secrets: Mapping[str, str]) -> Substituted:
    """Replace the placeholders of `secrets`; others stay. Raises `ToolFailure` where that is not safe."""
    if not any(match[1] in secrets for match in PLACEHOLDER.finditer(command)):
        return Substituted(command, {})
    names: dict[str, str] = {}
    pieces, position = [], 0
    for found in _Scanner(command, secrets).placeholders():
        name = found.name
        variable = names.setdefault(name, f"HALO_SECRET_{len(names) + 1}")
        pieces += [command[position : found.start], found.written(variable)]
        position = found.end
    for name in names:
        if "\0" in secrets[name]:
            raise ToolFailure(f"{{{{{name}}}}} holds a NUL, which no command can be given")
    environment = {variable: secrets[name] for name, variable in names.items()}
    return Substituted("".join(pieces) + command[position:], environment)


_WRITTEN = {
    "plain": '"${%s}"',
    "double": "${%s}",
    "single": "'\"${%s}\"'",
    "ansi": "'\"${%s}\"$'",
    "heredoc": "${%s}",
}


class _Found(NamedTuple):
    name: str
    start: int
    end: int
    quoting: str

    def written(self, variable: str) -> str:
        return _WRITTEN[self.quoting] % variable


class _Heredoc(NamedTuple):
    delimiter: str
    tabs: bool
    literal: bool


class _Scanner:
    """Walks through a command as a shell does, as far as it takes to know the quoting."""

    def __init__(self, command: str, secrets: Mapping[str, str]) -> None:
        self._text = command
        self._secrets = secrets
        self._at = 0
        self._unsure = ""
        self._heredocs: list[_Heredoc] = []
        self._again = _READS_AGAIN.search(command)

    def placeholders(self) -> Iterator[_Found]:
        """Yield every placeholder of a secret with the quoting that it stands in."""
        yield from self._plain(nested=False)

    def _here(self, quoting: str) -> _Found | None:
        """Take the placeholder at the current position, if there is one of a secret."""
        match = PLACEHOLDER.match(self._text, self._at)
        if match is None or match[1] not in self._secrets:
            return None
        if quoting not in _WRITTEN or self._unsure:
            raise ToolFailure(
                f"{match[0]} stands {self._unsure or quoting}, where a secret cannot be put in safely; "
                "set a variable in a line of its own (token={{...}}) and use that"
            )
        if self._again is not None and (quoting != "plain" or self._again[1] == "eval"):
            raise ToolFailure(
                f"{match[0]}: {self._again[1]} would read the value as code; "
                "hand it over as an argument: sh -c '... \"$1\" ...' sh {{...}}"
            )
        self._at = match.end()
        return _Found(match[1], match.start(), match.end(), quoting)

    def _plain(self, *, nested: bool) -> Iterator[_Found]:
        """Read commands: all of them, or those inside `$(...)` up to its end."""
        depth = 0
        while self._at < len(self._text):
            if (found := self._here("plain")) is not None:
                yield found
                continue
            char = self._text[self._at]
            if char == ")" and nested and depth == 0:
                self._at += 1
                if self._heredocs:
                    self._unsure = "after a here-document inside $(...)"
                return
            if self._text.startswith("((", self._at):
                yield from self._closed("((", "))", "in arithmetic")
                continue
            depth += (char == "(") - (char == ")")
            if char == "\n":
                self._at += 1
                yield from self._bodies()
            elif char == "#" and self._starts_word():
                self._skip_to("\n")
            elif char == "<" and (match := _HEREDOC.match(self._text, self._at)) is not None:
                self._heredoc(match)
            elif self._text.startswith("<<<", self._at):
                self._at += 3
            elif nested and self._text.startswith("case", self._at) and self._starts_word():
                self._unsure = "after a case inside $(...)"
                self._at += 4
            else:
                yield from self._quoted(char)

    def _quoted(self, char: str) -> Iterator[_Found]:
        """Read one character of a command, or what it begins."""
        text, at = self._text, self._at
        if char == "\\":
            self._at += 2
        elif char == "'":
            yield from self._until("'", "single", 1)
        elif text.startswith("$'", at):
            yield from self._until("'", "ansi", 2)
        elif char == '"':
            self._at += 1
            yield from self._double()
        else:
            yield from self._expansion(char)

    def _double(self) -> Iterator[_Found]:
        """Read what is in double quotes."""
        while self._at < len(self._text):
            if (found := self._here("double")) is not None:
                yield found
                continue
            char = self._text[self._at]
            if char == '"':
                self._at += 1
                return
            if char == "\\":
                self._at += 2 if self._text[self._at + 1 : self._at + 2] in ("$", "`", '"', "\\", "\n") else 1
            else:
                yield from self._expansion(char)

    def _expansion(self, char: str) -> Iterator[_Found]:
        """Read what a shell expands, in double quotes or outside; else one character."""
        text, at = self._text, self._at
        if char == "`":
            yield from self._closed("`", "`", "in backticks")
        elif text.startswith("$((", at):
            yield from self._closed("$((", "))", "in arithmetic")
        elif text.startswith("$(", at):
            if self._heredocs:
                self._unsure = "after a here-document that has not begun"
            self._at += 2
            yield from self._plain(nested=True)
        elif text.startswith("${", at):
            yield from self._closed("${", "}", "in ${...}")
        else:
            self._at += 1

    def _until(self, end: str, quoting: str, skip: int) -> Iterator[_Found]:
        """Read quotes in which nothing is expanded."""
        self._at += skip
        while self._at < len(self._text):
            if (found := self._here(quoting)) is not None:
                yield found
                continue
            if self._text[self._at] == end:
                self._at += 1
                return
            self._at += 2 if quoting == "ansi" and self._text[self._at] == "\\" else 1

    def _closed(self, start: str, end: str, where: str) -> Iterator[_Found]:
        """Read past something that no secret can be put into. Quotes in it could hide where it ends."""
        self._at += len(start)
        opened = 0
        while self._at < len(self._text):
            self._here(where)
            if opened == 0 and self._text.startswith(end, self._at):
                self._at += len(end)
                return
            char = self._text[self._at]
            if char == "\\":
                self._at += 2
                continue
            if end != "`":
                opened += (char in "({") - (char in ")}")
                if char in "'\"`":
                    self._unsure = f"after quotes {where}"
            self._at += 1
        yield from ()

    def _starts_word(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] in " \t\n;|&()"

    def _skip_to(self, end: str) -> None:
        found = self._text.find(end, self._at)
        self._at = len(self._text) if found < 0 else found

    def _heredoc(self, match: re.Match[str]) -> None:
        word = re.sub(r"\\(.)|['\"]", r"\1", match[2])
        self._heredocs.append(_Heredoc(word, bool(match[1]), literal=word != match[2]))
        self._at = match.end()

    def _bodies(self) -> Iterator[_Found]:
        """Read the here-documents that begin with this line."""
        waiting, self._heredocs = self._heredocs, []
        for heredoc in waiting:
            yield from self._body(heredoc)

    def _body(self, heredoc: _Heredoc) -> Iterator[_Found]:
        joined = False
        begun = self._at
        while self._at < len(self._text):
            stop = self._text.find("\n", self._at)
            stop = len(self._text) if stop < 0 else stop
            line = self._text[self._at : stop]
            if not joined and (line.lstrip("\t") if heredoc.tabs else line) == heredoc.delimiter:
                self._at = min(stop + 1, len(self._text))
                return
            while self._at < stop:
                quoting = "in a here-document whose text is taken as it is" if heredoc.literal else "heredoc"
                if not heredoc.literal and self._expands(begun, self._at):
                    quoting = "after an expansion in a here-document"
                found = self._here(quoting)
                if found is not None:
                    yield found
                elif self._text[self._at] == "\\" and not heredoc.literal:
                    self._at += 2
                else:
                    self._at += 1
            joined = not heredoc.literal and (len(line) - len(line.rstrip("\\"))) % 2 == 1
            self._at = min(stop + 1, len(self._text))

    def _expands(self, start: int, stop: int) -> bool:
        """Tell whether something stands in a body that could still be open at `stop`."""
        before = _SIMPLE_BRACES.sub("", PLACEHOLDER.sub("", self._text[start:stop]))
        return any(opening in before for opening in ("$(", "${", "`"))
