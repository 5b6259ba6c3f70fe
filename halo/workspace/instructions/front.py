"""Front matter as other tools write it: read line by line, because much of it is not valid YAML.

`globs: **/*.{ts,tsx}` is what editors expect and what no YAML parser takes: `*` begins an alias there. Only
the keys at the left edge count, each a text, a truth value, nothing, or a list of texts.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from halo.files.canonical import canonical_text

Value = str | bool | None | tuple[str, ...]

# The part of a file that says what it is for; a rule that stays out of a prompt is no input beyond it.
LENIENT_FRONT = "lenient-front"

_OPEN = re.compile(r"---[ \t]*\n")
_CLOSE = re.compile(r"^---[ \t]*\n", re.MULTILINE)
_KEY = re.compile(
    r"""(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<plain>[\w.-]+))[ \t]*:(?P<rest>.*)"""
)
_MAPPING = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[\w.\"'-]+[ \t]*:")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_REMARK = re.compile(r"(?:^|[ \t])#.*")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class Split(NamedTuple):
    """A file in two: what its front matter says, its body, and the body's first line (from 1)."""

    values: dict[str, Value]
    body: str
    line: int


def split_lenient(text: str) -> Split:
    """Split canonical `text`; never raises.

    Front matter stands between a `---` on the first line and the next line that is `---`, and begins with a
    key or is empty. Two rules around something else, and a `---` that no other ends, are text.
    """
    start, end, behind = _edges(text)
    block = text[start:end]
    if not behind or (block.strip() and not _MAPPING.match(block)):
        return Split({}, text, 1)
    return Split(read_values(block), text[behind:], 1 + text.count("\n", 0, behind))


def lenient_front(data: bytes) -> bytes:
    """Return the front matter of a file with its dividers, empty for none: what `split_lenient` reads there.

    Raises `LayerError` for what is not text.
    """
    text = canonical_text(data, LENIENT_FRONT)
    return text[: _edges(text)[2]].encode()


def _edges(text: str) -> tuple[int, int, int]:
    """Return where a block between dividers begins, where it ends, and where the text goes on; 0 for none."""
    opened = _OPEN.match(text)
    closed = _CLOSE.search(text, opened.end()) if opened is not None else None
    if opened is None or closed is None:
        return 0, 0, 0
    return opened.end(), closed.start(), closed.end()


def read_values(block: str) -> dict[str, Value]:
    """Read the keys at the left edge of `block`; of one that stands twice the last counts."""
    return {key: _value(rest, below) for key, rest, below in _entries(block.split("\n"))}


def patterns(value: Value) -> tuple[str, ...]:
    """Return the patterns of a text such as `**/*.{ts,tsx}, docs/**`, or of a list of them."""
    texts = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
    return tuple(part for text in texts for part in _split(text, "{", "}"))


def _entries(lines: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each key with what stands behind it and the lines that belong to it."""
    key, rest = "", ""
    below: list[str] = []
    for line in lines:
        match = _KEY.match(line)
        if match is None:
            below.append(line)
            continue
        if key:
            yield key, rest, below
        key = match["double"] or match["single"] or match["plain"] or ""
        rest, below = match["rest"].strip(), []
    if key:
        yield key, rest, below


def _value(rest: str, below: list[str]) -> Value:
    more = [line.strip() for line in below]
    if rest[:1] in ("|", ">"):
        return ("\n" if rest[0] == "|" else " ").join(more).strip()
    if rest[:1] == "[":
        inner = "\n".join([rest[1:], *more]).rpartition("]")
        return tuple(_text(item) for item in _split(inner[0] or inner[2], "[{", "]}"))
    if rest[:1] in ("'", '"'):
        return _text("\n".join([rest, *more]))
    plain = _REMARK.sub("", rest).strip()
    if not plain:
        items = [line for line in more if line and not line.startswith("#")]
        if items and all(line == "-" or line.startswith("- ") for line in items):
            return tuple(text for line in items if (text := _text(line[1:].strip())))
    plain = " ".join([plain, *(_REMARK.sub("", line).strip() for line in more)]).strip()
    lowered = plain.lower()
    return _WORDS[lowered] if lowered in _WORDS else _text(plain)


def _text(written: str) -> str:
    """Take the quotes from a text, and the remark behind it."""
    written = written.strip()
    if match := _DOUBLE.match(written):
        return _ESCAPE.sub(r"\1", match[1])
    if match := _SINGLE.match(written):
        return match[1].replace("''", "'")
    return _REMARK.sub("", written).strip()


def _split(text: str, opening: str, closing: str) -> list[str]:
    """Split at the commas that stand neither in quotes nor in brackets; empty parts go."""
    parts, start, depth, quote = [], 0, 0, ""
    blank = True  # nothing but blanks so far in this part
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[i - 1] != "\\" else quote
        elif char in "'\"" and blank:
            quote = char
        elif char in opening:
            depth += 1
        elif char in closing:
            depth = max(depth - 1, 0)
        elif char == "," and not depth:
            parts.append(text[start:i])
            start, blank = i + 1, True
            continue
        blank = blank and char.isspace()
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]
