"""Where a text that is too long for one message is cut. Pure.

Best is a break outside code and tables, in the order paragraph, line, sentence, word; then one between any
two characters that tears no construct. Where all that stands too early, an earlier break is taken. Where
there is none at all, constructs are torn, between words if possible, and a grapheme only if it is longer than
a message.
"""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from halo.sessions.delivery.blocks import EOL, Fence, Layout, lay_out
from halo.sessions.delivery.chunks import BreakPreference
from halo.sessions.delivery.graphemes import boundary_before, is_boundary
from halo.sessions.delivery.inlines import Inlines
from halo.sessions.delivery.tables import rows_end

Tier = Literal["paragraph", "newline", "sentence", "whitespace"]
_TIERS: tuple[Tier, ...] = ("paragraph", "newline", "sentence", "whitespace")

_ENDS: dict[Tier, re.Pattern[str]] = {
    "paragraph": re.compile(r"(?:\r\n?+|\n)(?=[ \t]*[\r\n])"),
    "newline": EOL,
    # Scripts without spaces have full stops of their own.
    "sentence": re.compile(r"(?<=[.!?…])[\"'”’)\]*_]*+(?=\s)|(?<=[。！？；])[\"”’」』）]*+"),  # noqa: RUF001
    "whitespace": re.compile(r"[ \t\u3000]+"),
}

# What is something else at the beginning of a message than within a line.
_BEGINS_BLOCK = re.compile(
    r"\s*(?:(?:[-+*]|\d{1,9}[.)]|#{1,6})(?:\s|\Z)|>|`{3}|~{3}|\||(?:=+|-{2,})[ \t]*(?:[\r\n]|\Z))"
)
_UNDERLINE = re.compile(r"[ \t]*+(?:\r\n?+|\n) {0,3}(?:=+|-{2,})[ \t]*(?:[\r\n]|\Z)")
_INDENTED = re.compile(r"(?:[ \t]*+(?:\r\n?+|\n))++(?: {4}| {0,3}\t)[ \t]*[^\s]")
# A line so far that is only the mark of a list item or a heading.
_BARE_MARK = re.compile(r"[ \t>]*(?:[-+*]|\d{1,9}[.)]|#{1,6})?[ \t]*\Z")
# A line that may be one of a fence.
_FENCE_LINE = re.compile(r"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(?:`{3}|~{3})")

_TRIES = 64  # positions that are looked at for a cut within a line of code


class Cut(NamedTuple):
    """Where a text is cut. `fence` is the block of code that is torn.

    `over`: where it is over, if nothing of its code is left behind the cut; else -1. `in_table`: rows follow.
    """

    at: int
    fence: Fence | None = None
    over: int = -1
    in_table: bool = False


class Room(NamedTuple):
    """What fits: `text[:chars]` is at most a message, and so is `text[:lines]` (by lines); -1 for all."""

    chars: int
    lines: int

    @property
    def end(self) -> int:
        """The last place for a cut."""
        return min(self.chars, self.lines) if self.lines >= 0 else self.chars


def room_in(text: str, chars: int, lines: int) -> Room:
    """Return how much of `text` fits into `chars` characters and `lines` lines (0: any number)."""
    end = nth_line_end(text, lines) if lines > 0 else -1
    return Room(min(chars, len(text)), end)


def nth_line_end(text: str, count: int) -> int:
    """Return where the `count`-th line of a text ends, -1 where it has fewer or just as many."""
    for number, end in enumerate(EOL.finditer(text), 1):
        if number == count:
            return end.start()
    return -1


class Breaks:
    """Finds the cut in `text`, whose first `lead` characters are Halo's own.

    A chunk has at most `chars` characters and `lines` lines; breaks before `least` are second choice.
    `in_table`: the text begins with rows of a table whose head is not there.
    """

    def __init__(
        self, text: str, lead: int, chars: int, lines: int, least: int, *, in_table: bool = False
    ) -> None:
        self._text, self._lead, self._chars, self._lines = text, lead, chars, lines
        room = room_in(text, chars, lines)
        self._end = room.end
        self._layout: Layout = lay_out(text)
        self._rows = rows_end(text, 0) if in_table else 0
        self._inlines = Inlines(text, chars)
        capped = 0 <= room.lines < room.chars
        self._least = max(lead + 1, min(least, self._end // 2) if capped else least)

    def find(self, preference: BreakPreference) -> Cut:
        """Return where to cut; always behind `lead`."""
        tiers = _TIERS[_TIERS.index(preference) :]
        first = self._lead + 1
        fence = self._layout.fence_at(self._end)
        at = self._tiers(tiers, self._least, self._good) or self._hard(self._least)
        if at is None and fence is not None and not self._fits(fence):
            inside = self._in_fence(fence)
            if inside is not None:
                return inside
        at = at or self._tiers(tiers, first, self._good) or self._hard(first)
        if at is None and fence is not None:
            inside = self._in_fence(fence)
            if inside is not None:
                return inside
        at = at or self._tiers(_TIERS, first, self._whole) or self._tiers(_TIERS[1:], first, self._bearable)
        at = at or self._anywhere()
        table = self._layout.table_at(at)
        return Cut(at, in_table=at < self._rows or (table is not None and at > table[1]))

    def first_paragraph(self, least: int) -> int | None:
        """Return the first blank line that ends a message of at least `least` characters, if one fits."""
        for end in _ENDS["paragraph"].finditer(self._text, max(least, self._lead + 1)):
            if end.start() > self._end:
                return None
            if self._good(end.start(), "paragraph"):
                return end.start()
        return None

    def _tiers(self, tiers: tuple[Tier, ...], first: int, good: Callable[[int, Tier], bool]) -> int | None:
        """Return the last place of the first kind that has one in reach."""
        for tier in tiers:
            places: list[int] = []
            for found in _ENDS[tier].finditer(self._text, first):
                at = found.end() if tier == "sentence" else found.start()
                if at > self._end:
                    break
                places.append(at)
            place = next((at for at in reversed(places) if good(at, tier)), None)
            if place is not None:
                return place
        return None

    def _good(self, at: int, tier: Tier) -> bool:
        """Tell whether both sides of a cut mean what they did."""
        if not self._whole(at, tier):
            return False
        table = self._layout.table_at(at)
        if tier in ("paragraph", "newline"):
            # Neither side of a table's line of dashes, nor what would become a heading or code.
            below = EOL.match(self._text, at)
            torn = table is not None and below is not None and table[1] in (below.end(), self._line_start(at))
            return not (torn or _UNDERLINE.match(self._text, at) or _INDENTED.match(self._text, at))
        if table is not None or at < self._rows or _BEGINS_BLOCK.match(self._text, at):
            return False
        return _BARE_MARK.match(self._text[self._line_start(at) : at]) is None

    def _whole(self, at: int, tier: Tier) -> bool:
        """Tell whether a cut tears no construct."""
        return self._bearable(at, tier) and self._inlines.around(at) is None

    def _bearable(self, at: int, tier: Tier) -> bool:
        """Tell whether a cut leaves something on its left, tears no grapheme and no code, and makes none."""
        text = self._text
        if not text[self._lead : at].strip() or self._layout.fence_at(at) is not None:
            return False
        if tier in ("paragraph", "newline"):
            return True
        space = _ENDS["whitespace"].match(text, at)
        behind = space.end() if space is not None else at
        return is_boundary(text, at) and is_boundary(text, behind) and not self._makes_fence(at, behind)

    def _makes_fence(self, at: int, behind: int) -> bool:
        """Tell whether a line cut here begins, or goes on, with what opens or closes a block of code."""
        left = self._text[self._line_start(at) : at]
        right = self._text[behind : behind + 3]
        return _FENCE_LINE.match(left) is not None or right in ("```", "~~~")

    def _line_start(self, at: int) -> int:
        return max(self._text.rfind("\n", 0, at), self._text.rfind("\r", 0, at)) + 1

    def _hard(self, first: int) -> int | None:
        """Return the last place between two characters that tears no construct."""
        at = self._end
        for _ in range(_TRIES):
            at = boundary_before(self._text, at)
            if at < first or self._layout.fence_at(at) is not None:
                return None
            around = self._inlines.around(at)
            if around is not None:
                at = around[0]
            elif self._good(at, "whitespace"):
                return at
            else:
                at -= 1
        return None

    def _anywhere(self) -> int:
        """Return the last place that tears no grapheme, or any place at all: something has to go."""
        at = boundary_before(self._text, self._end)
        return at if self._text[self._lead : at].strip() else max(self._end, self._lead + 1)

    def _fits(self, fence: Fence) -> bool:
        """Tell whether a message of its own could hold a block of code that is not the first thing here."""
        if fence.is_open or not self._text[self._lead : fence.start].strip():
            return False
        block = self._text[fence.start : fence.end]
        return len(block) <= self._chars and (self._lines <= 0 or nth_line_end(block, self._lines) < 0)

    def _in_fence(self, fence: Fence) -> Cut | None:
        """Return a cut within a block of code that leaves room to close it, and code on its left."""
        room = self._room_in(fence)
        first = max(fence.body, self._lead) + 1
        if room is None or room < first:
            return None
        at = self._line_end_before(room + 1, first)
        if at is None or not self._text[first - 1 : at].strip():
            return self._in_line(fence, first, room)
        left = fence.end if fence.close < 0 else fence.close
        if left >= 0 and not self._text[at:left].strip():
            return Cut(at, fence, fence.end)
        return Cut(at, fence)

    def _room_in(self, fence: Fence) -> int | None:
        """Return how far a chunk may reach that closes `fence`; None where it could not go on in another."""
        closing = len(fence.closing) + 1
        again = len(fence.opening(info=False)) + 1 + len(fence.going_on)
        if again + closing >= self._chars or 0 < self._lines < 3:
            return None
        return room_in(self._text, self._chars - closing, max(0, self._lines - 1)).end

    def _line_end_before(self, end: int, first: int) -> int | None:
        at = max(self._text.rfind("\n", first, end), self._text.rfind("\r", first, end))
        if at > first and self._text[at - 1 : at + 1] == "\r\n":
            at -= 1
        return at if at >= first else None

    def _in_line(self, fence: Fence, first: int, room: int) -> Cut | None:
        """Return a cut within a line of code, neither half of which would close the block."""
        at = room
        for _ in range(_TRIES):
            at = boundary_before(self._text, at)
            if at < first:
                return None
            start = self._line_start(at)
            end = EOL.search(self._text, at)
            halves = self._text[start:at], self._text[at : end.start() if end is not None else None]
            if self._text[first - 1 : at].strip() and not any(_closes(fence, half) for half in halves):
                return Cut(at, fence)
            at -= 1
        return None


def _closes(fence: Fence, line: str) -> bool:
    """Tell whether a line might close a block of code, whatever blocks are around it."""
    return fence.closed_by(line.strip(" \t>"))
