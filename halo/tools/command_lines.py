"""What a shell command line runs, as far as its text tells. Pure, and no shell: see `policy`.

Two questions are answered. Is this line one plain command, and nothing else (`is_plain`)? And which commands
might it run (`commands`)? Nobody can answer the second one whole: a script, a variable or an alias may be
called anything.
"""

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

_MOST = 200  # commands of one line that are looked at
_LONGEST = 20_000  # characters of a line that are looked at
_DEEPEST = 4  # `sh -c "sh -c ..."`

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")

# Words before a command that run what stands behind them, or have no part in it.
_WRAPPERS = frozenset(
    {
        *("env", "sudo", "doas", "command", "exec", "builtin", "nohup", "time", "nice", "ionice", "setsid"),
        *("timeout", "stdbuf", "xargs", "watch", "strace", "busybox", "chroot", "eval", "unshare", "flock"),
        *("if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc"),
    }
)
_TAKES_ONE = frozenset({"timeout", "flock", "chroot"})
# Arguments behind which a command stands, as in `find`.
_EXECUTING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "su"})

# What begins another command, or opens a place that holds one, where it is not quoted.
_OPERATORS = frozenset(";&|()\n\r`<>")
# What a shell acts upon within double quotes.
_LIVE = frozenset("$`")


class TooMuchError(Exception):
    """The line is too long, or runs too many commands, to be looked through."""


class _Char(NamedTuple):
    char: str
    quote: str  # the quotation mark that it stands in, a backslash for one that is escaped; empty: none


def is_plain(line: str) -> bool:
    """Tell whether a line is one command with arguments, whose text says what it runs.

    No operator and no redirection stands outside quotes, no variable or substitution outside single quotes,
    no line break anywhere, and no assignment before the command. Quotes are closed.
    """
    if len(line) > _LONGEST or any(c in line for c in "\n\r\0"):
        return False
    for char, quote in _chars(line):
        if (quote != "'" and char in _LIVE) or (not quote and char in _OPERATORS):
            return False
    words = _words(line)
    return words is not None and words != [] and _ASSIGNMENT.match(words[0]) is None


def commands(line: str) -> list[str]:
    """Return the line itself and every command that it might run, in several spellings of each.

    Split at operators outside quotes and at substitutions within double quotes, without what is put before a
    command (`VAR=x`, `env`, `sudo`, ...), with quotes taken off, with the program's name without its folder;
    what is handed to `sh -c` or `eval` is a line of its own. Raises `TooMuchError`.
    """
    found: dict[str, None] = {}
    todo = [(line, 0)]
    while todo:
        text, depth = todo.pop()
        if len(text) > _LONGEST or depth > _DEEPEST:
            raise TooMuchError
        text = text.replace("\\\n", "")  # a line that goes on
        _note(found, text, " ".join(_words(text) or ()))
        for part, redirected in _parts(text):
            _note(found, part)
            words = _words(part)
            for run in _runs(words if words is not None else _rough(part), redirected):
                _note(found, " ".join(run), " ".join([posixpath.basename(run[0]), *run[1:]]))
                todo += [(inner, depth + 1) for inner in _inner(run)]
    return list(found)


def _note(found: dict[str, None], *spellings: str) -> None:
    found.update({spelling.strip(): None for spelling in spellings if spelling.strip()})
    if len(found) > _MOST:
        raise TooMuchError


def _chars(line: str) -> Iterator[_Char]:
    """Yield each character with the quotation that it stands in; the marks themselves stand in theirs."""
    quote, escaped = "", False
    for char in line:
        if escaped:
            yield _Char(char, "\\")
            escaped = False
        elif char == "\\" and quote != "'":
            yield _Char(char, "\\")
            escaped = True
        elif char == quote:
            yield _Char(char, quote)
            quote = ""
        elif char in "'\"" and not quote:
            quote = char
            yield _Char(char, quote)
        else:
            yield _Char(char, quote)


def _parts(line: str) -> Iterator[tuple[str, bool]]:
    """Split at operators, and where a substitution begins or ends; say whether a part is redirected to."""
    part: list[str] = []
    redirected = False
    substitutions = 0
    before = ""
    for char, quote in _chars(line):
        opens = quote == '"' and before == "$" and char == "("
        closes = quote == '"' and char == ")" and substitutions > 0
        substitutions += opens - closes
        if (not quote and char in _OPERATORS) or (quote == '"' and char == "`") or opens or closes:
            yield "".join(part), redirected
            redirected = char in "<>" or (redirected and not "".join(part).strip())  # `2>&1`
            part = []
        else:
            part.append(char)
        before = char
    yield "".join(part), redirected


def _words(text: str) -> list[str] | None:
    """Split as a shell does; None where quotes are not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _rough(text: str) -> list[str]:
    """Split a part that holds half a quotation, as parts of `"$(...)"` do."""
    return re.sub(r"[\"'\\]", "", text).split()


def _runs(words: list[str], redirected: bool) -> Iterator[list[str]]:
    """Yield what might be the command: behind assignments, wrappers, their options, a redirection's file."""
    todo = [0, 1] if redirected else [0]
    todo += [at + 1 for at, word in enumerate(words) if word in _EXECUTING]
    seen: set[int] = set()
    while todo:
        at = todo.pop()
        if at >= len(words) or at in seen:
            continue
        seen.add(at)
        word = words[at]
        if _ASSIGNMENT.match(word):
            todo.append(at + 1)
            continue
        yield words[at:]
        if posixpath.basename(word) not in _WRAPPERS:
            continue
        # An argument of its own may stand before the command, and so may one of an option: `sudo -u name`.
        further = int(posixpath.basename(word) in _TAKES_ONE)
        at += 1
        while at < len(words) and (words[at].startswith("-") or _ASSIGNMENT.match(words[at])):
            at += 1
            further += 1
            todo.append(at + 1)
        todo += range(at, at + 1 + min(further, 2))


def _inner(run: list[str]) -> list[str]:
    """Return the lines that a shell or `eval` is handed."""
    name = posixpath.basename(run[0])
    if name == "eval":
        return [" ".join(run[1:])]
    if name in _SHELLS and any(re.fullmatch(r"-[a-z]*c[a-z]*", word) for word in run[1:]):
        return [word for word in run[1:] if not word.startswith("-")]
    return []
