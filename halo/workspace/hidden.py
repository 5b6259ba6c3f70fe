"""Characters in a text that a reader does not see, or that change the order in which the text is seen."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Hidden(NamedTuple):
    """A hidden character: its line (from 1) and its name, such as `U+202E RIGHT-TO-LEFT OVERRIDE`."""

    line: int
    name: str


# Controls; what joins, directs and fills without a shape; tags; variation selectors beyond the common ones. A
# fixed list: the tables of an interpreter differ from version to version, and artifacts must not.
_SUSPECT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# A flag of a region is a black flag with tags behind it.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f")
_JOINERS = "\u200c\u200d"


def find_hidden(text: str) -> Iterator[Hidden]:
    """Yield the hidden characters of `text` in order.

    Not what scripts and emoji need: a joiner between two visible characters that are not ASCII, and the
    tags of a flag.
    """
    import unicodedata

    line, counted = 1, 0
    for at in _positions(text):
        char = text[at]
        line += text.count("\n", counted, at)
        counted = at
        name = unicodedata.name(
            char, "control character" if unicodedata.category(char) == "Cc" else "unnamed"
        )
        yield Hidden(line, f"U+{ord(char):04X} {name}")


def _positions(text: str) -> Iterator[int]:
    flags = {i for flag in _FLAG.finditer(text) for i in range(*flag.span())}
    for match in _SUSPECT.finditer(text):
        at = match.start()
        if at not in flags and not (match[0] in _JOINERS and _joins(text, at)):
            yield at


def _joins(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return bool(before and after) and not any(
        c.isascii() or _SUSPECT.match(c) or c.isspace() for c in (before, after)
    )


def named(hidden: Iterable[Hidden]) -> str:
    """Name hidden characters in a sentence, each once, the first three."""
    names = list(dict.fromkeys(one.name for one in hidden))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"characters that nobody sees: {', '.join(names[:3])}{more}"


def blanked(text: str) -> str:
    """Return `text` with a space in the place of each hidden character."""
    if _SUSPECT.search(text) is None:
        return text
    seen = list(text)
    for at in _positions(text):
        seen[at] = " "
    return "".join(seen)
