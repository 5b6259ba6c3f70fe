"""Head and tail of a text that is too long: pure, and the same on every machine."""

import re
from typing import NamedTuple

# Of the room: the beginning says what a text is about, the end what was added last.
_HEAD, _TAIL = 70, 20

# What belongs to the character before it: accents, joiners, variants, skin tones. A fixed list: the tables of
# an interpreter differ from version to version, and artifacts must not.
_CONTINUES = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u200d\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U0001f3fb-\U0001f3ff]"
)
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")


class Ends(NamedTuple):
    """What is kept of a text: `text[:head]` and `text[tail:]`."""

    head: int
    tail: int


def ends(text: str, room: int, frame: int) -> Ends:
    """Choose head and tail of `text` that fit into `room` characters with `frame` others between them.

    About 70 and 20 per cent of the room. A cut falls between two lines, else between two words, if that
    keeps at least half of an end; it never falls into a character. `text` is longer than `room`.
    """
    budget = max(room - frame, 0)
    head = min(room * _HEAD // 100, budget * _HEAD // (_HEAD + _TAIL))
    tail = min(room * _TAIL // 100, budget - head)
    return Ends(_end_of_head(text, head), _start_of_tail(text, len(text) - tail))


def _end_of_head(text: str, limit: int) -> int:
    for boundary in ("\n", " "):
        found = text.rfind(boundary, limit // 2, limit + 1)
        if found > 0:
            return len(text[:found].rstrip())
    while limit and _within(text, limit):
        limit -= 1
    return len(text[:limit].rstrip())


def _start_of_tail(text: str, start: int) -> int:
    for boundary in ("\n", " "):
        found = text.find(boundary, start - 1, start + (len(text) - start) // 2)
        if found >= 0:
            start = found + 1
            break
    while start < len(text) and _within(text, start):
        start += 1
    return start + len(text[start:]) - len(text[start:].lstrip("\n"))


def _within(text: str, at: int) -> bool:
    """Tell whether a cut at `at` would part what is one character to a reader."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return (
        _CONTINUES.match(after) is not None
        or before == "\u200d"
        or (_FLAG.match(before) is not None and _FLAG.match(after) is not None)
    )
