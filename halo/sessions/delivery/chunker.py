"""Cuts an answer into messages while it is written.

Promises, whatever the text and however it comes in:
- The same text gives the same chunks: a cut is made when enough of what follows is there, and sees no more.
- Sources and separators, joined, are the text; only a text of nothing but white space gives no chunk.
- No chunk exceeds its limits, synthetic lines included.
- Every chunk is balanced Markdown: a block of code that goes on in the next one is closed and opened again.
- Each feed takes time linear in a few chunks, however long the text is.

Limits that are too small for a block of code with one character in it leave it unbalanced.
"""

import re
from itertools import islice
from typing import NamedTuple

from halo.sessions.delivery.blocks import EOL, Fence, lay_out
from halo.sessions.delivery.breaks import Breaks, Cut, nth_line_end, room_in
from halo.sessions.delivery.chunks import UNLIMITED, Chunk, ChunkConfig

_BLANK_LINES = re.compile(r"(?:\s*(?:\r\n?|\n))?")
_SPACE = re.compile(r"\s*")
_LAST_EOL = re.compile(r"(?:\r\n?|\n)(?=[^\r\n]*\Z)")
# The end of a paragraph, seen whole: what follows has begun.
_PARAGRAPH_OVER = re.compile(r"(?:\r\n?+|\n)[ \t]*+(?:\r\n?+|\n)\s*+\S")
# A line that begins code which is not there yet, in quotes and items, too; and what may become such a line.
_AROUND = r"[ \t>]*+(?:(?:[-+*]|\d{1,9}[.)])[ \t]++)*+"
_BARE_FENCE = r"(?:`{3,}+[^`\r\n]*+|~{3,}+[^\r\n]*+)"
_NOTHING_YET = re.compile(_AROUND + _BARE_FENCE + r"?\s*+\Z")
_MAYBE_NOTHING = re.compile(_AROUND + rf"(?:{_BARE_FENCE}|`{{1,2}}|~{{1,2}}|[-+*]|\d{{1,9}}[.)]?)?\s*+\Z")

_SOON = 2  # blank lines
_FURTHER = 2_000  # characters that are looked at behind a break where no number of characters is a limit


class _Text(NamedTuple):
    """The text at hand: `lead` characters of Halo's own, then the buffer from `start`.

    The first line may have been shortened by `skew` characters. `whole`: the buffer has no more.
    """

    text: str
    lead: int
    start: int
    skew: int
    whole: bool

    def in_buffer(self, at: int) -> int:
        return self.start + at - self.lead + self.skew


class Chunker:
    """Takes a text in pieces and gives chunks. Not to be used any more after `finish`."""

    def __init__(self, config: ChunkConfig) -> None:
        self._config = config
        self.taken = 0  # characters of the text so far
        self._buffer = ""
        self._start = 0  # what is before it is in chunks
        self._opening = ""  # what the next chunk begins with, of Halo's own
        self._alarm = 0  # without a line ending nothing can be decided before the buffer has this length
        self._awake = False  # a chunk waits to see where the white space behind it ends
        self._blank = True  # the last line is blank so far: what begins next may end a paragraph
        self._in_table = False  # the next chunk goes on with rows

    def feed(self, delta: str) -> tuple[Chunk, ...]:
        """Take more of the text; return the chunks that are now certain."""
        self._buffer += delta
        self.taken += len(delta)
        line = max(delta.rfind("\n"), delta.rfind("\r")) + 1
        telling = line > 0 or (self._blank and not delta.isspace())
        self._blank = (line > 0 or self._blank) and not delta[line:].strip()
        if not (telling or self._awake or len(self._buffer) >= self._alarm):
            return ()
        return self._drain(final=False)

    def finish(self) -> tuple[Chunk, ...]:
        """Return what is left, in chunks."""
        return self._drain(final=True)

    def _drain(self, *, final: bool) -> tuple[Chunk, ...]:
        chunks: list[Chunk] = []
        while (chunk := self._next(final=final)) is not None:
            chunks.append(chunk)
        self._buffer, self._start, self._alarm = self._buffer[self._start :], 0, self._alarm - self._start
        return tuple(chunks)

    def _next(self, *, final: bool) -> Chunk | None:
        self._awake = False
        at_hand = self._at_hand(final=final)
        if at_hand is None:
            return None
        decided = self._decide(at_hand, final=final)
        return self._chunk(*decided, final=final) if decided is not None else None

    def _at_hand(self, *, final: bool) -> _Text | None:
        """Return as much of the text as a decision may look at; None where there is none."""
        start, lead, limit = self._start, len(self._opening), self._config.limit
        if not lead:
            blank = _BLANK_LINES.match(self._buffer, start)
            start = blank.end() if blank is not None else start
            space = _SPACE.match(self._buffer, start)
            if space is not None and space.end() - start >= limit:
                start = space.end()  # no message has room for such an indentation
        most = 2 * limit + 2
        taken = self._buffer[start : start + most] if limit < UNLIMITED else self._buffer[start:]
        if not taken or (taken.isspace() and (final or not lead)):
            return None
        return _Text(self._opening + taken, lead, start, 0, start + len(taken) == len(self._buffer))

    def _decide(self, at_hand: _Text, *, final: bool) -> tuple[_Text, Cut] | None:
        """Decide where the next chunk ends; None where that is not certain yet."""
        if self._config.by_paragraph:
            at = self._first_paragraph(at_hand)
            if at is not None:
                return at_hand, Cut(at)
        last = final and at_hand.whole
        rest = self._rest(at_hand) if last else None
        if rest is not None:
            return at_hand, rest
        extent = self._extent(at_hand.text)
        if extent is None and not final:
            return None
        seen = self._shortened(at_hand._replace(text=at_hand.text[:extent]))
        rest = self._rest(seen) if last and seen.skew and extent is None else None
        return seen, rest or self._breaks(seen).find(self._config.break_preference)

    def _first_paragraph(self, seen: _Text) -> int | None:
        """Return where the first paragraph ends; most end at one of the next blank lines."""
        least = self._config.least
        for over in islice(_PARAGRAPH_OVER.finditer(seen.text, max(least, seen.lead + 1)), _SOON):
            begun = seen._replace(text=seen.text[: over.end()])
            at = self._breaks(begun).first_paragraph(least)
            if at is not None:
                return at
        return self._breaks(seen).first_paragraph(least)

    def _breaks(self, seen: _Text) -> Breaks:
        config = self._config
        return Breaks(
            seen.text, seen.lead, config.limit, config.max_lines, config.least, in_table=self._in_table
        )

    def _shortened(self, seen: _Text) -> _Text:
        """Leave out what keeps code from a message: a long info string, and blank lines that fill it.

        Both only at the beginning of a text, where no other cut helps.
        """
        eol = EOL.search(seen.text)
        fences = lay_out(seen.text[: eol.end()]).fences if eol is not None else ()
        if eol is None or not fences:
            return seen
        fence, line = fences[0], seen.text[: eol.start()]
        if not seen.lead and self._is_long(line, fence):
            bare = fence.opening(info=False)
            seen = seen._replace(text=bare + seen.text[len(line) :], skew=len(line) - len(bare))
        body = fence.body - seen.skew
        blank = _BLANK_LINES.match(seen.text, body)
        code = blank.end() if blank is not None else body
        room = room_in(
            seen.text, self._config.limit - len(fence.closing) - 1, max(0, self._config.max_lines - 1)
        )
        if code <= room.end:
            return seen
        return seen._replace(text=seen.text[:body] + seen.text[code:], skew=seen.skew + code - body)

    def _is_long(self, line: str, fence: Fence) -> bool:
        """Tell whether the line that opens a block of code leaves it less than half of a message."""
        return 2 * (len(line) + len(fence.closing) + 2) > self._config.limit

    def _rest(self, at_hand: _Text) -> Cut | None:
        """Return the end of a text that is one message."""
        text, lead = at_hand.text.rstrip(), at_hand.lead
        if len(text) > self._config.limit:
            return None
        fences = lay_out(text).fences
        fence = fences[-1] if fences and fences[-1].is_open else None
        end = len(text)
        if fence is not None and not text[fence.body :].strip() and text[lead : fence.start].strip():
            # It broke off when it was about to write code.
            text, fence = text[: fence.start].rstrip(), None
        closing = "\n" + fence.closing if fence is not None else ""
        most = self._config.max_lines
        if len(text) + len(closing) > self._config.limit or (
            most > 0 and nth_line_end(text + closing, most) >= 0
        ):
            return None
        return Cut(len(text), fence, end)

    def _extent(self, text: str) -> int | None:
        """Return how far a decision looks, once all of that is there; the same for every longer text.

        To the end of the paragraph, or of the block of code, in which the limit lies; but no farther than
        another message reaches: no construct that fits into one reaches farther.
        """
        room = room_in(text, self._config.limit, self._config.max_lines)
        end = room.end
        bound = end + (self._config.limit if self._config.limit < UNLIMITED else max(end, _FURTHER))
        if len(text) <= self._config.limit and room.lines < 0:
            self._alarm = self._start + self._config.limit
            return None
        self._alarm = self._start + bound
        line = EOL.search(text, end)
        fence = lay_out(text[: line.start()] if line is not None else text).fence_at(end)
        if fence is not None:
            fence = lay_out(text[:bound]).fence_at(end) or fence
            extent = fence.end + 1 if 0 <= fence.end < len(text) - 1 else None
        else:
            over = _PARAGRAPH_OVER.search(text, end)
            extent = over.end() if over is not None else None
        if extent is not None and extent <= bound:
            return extent
        return bound if len(text) >= bound else None

    def _chunk(self, at_hand: _Text, cut: Cut, *, final: bool) -> Chunk | None:
        """Make the chunk and go on behind it; None where the end of the white space is not there yet."""
        body, fence = at_hand.text[: cut.at], cut.fence
        if fence is None:
            body = at_hand.text[: at_hand.lead] + body[at_hand.lead :].rstrip()
        end = at_hand.in_buffer(len(body))
        over = at_hand.in_buffer(cut.over) if cut.over >= 0 else end
        behind = self._behind(over, within=fence is not None and cut.over < 0, final=final)
        if behind is None:
            self._awake = True
            return None
        closing = "\n" + fence.closing if fence is not None else ""
        chunk = Chunk(
            body + closing,
            self._buffer[self._start : end],
            self._buffer[end:behind],
            self._opening,
            closing,
        )
        goes_on = fence is not None and cut.over < 0 and behind < len(self._buffer)
        self._opening = self._again(fence, within_line=end == behind) if fence is not None and goes_on else ""
        self._start, self._in_table = behind, cut.in_table
        return chunk

    def _behind(self, end: int, *, within: bool, final: bool) -> int | None:
        """Return where the separator behind `end` is over; None where that cannot be said yet."""
        space = _SPACE.match(self._buffer, end)
        over = space.end() if space is not None else end
        if within:
            eol = EOL.match(self._buffer, end)
            behind = eol.end() if eol is not None else end
        else:
            last = _LAST_EOL.search(self._buffer, end, over)
            behind = last.end() if last is not None else over
        if within and over - end >= self._config.limit:
            behind = over  # no message has room for it
        if over < len(self._buffer):
            nothing = _NOTHING_YET if final else _MAYBE_NOTHING
            if within or nothing.match(self._buffer, behind) is None:
                return behind
        return len(self._buffer) if final else None

    def _again(self, fence: Fence, *, within_line: bool) -> str:
        """Return what opens a block of code again; with its info string where that leaves room for code."""
        line = fence.opening(info=True)
        if self._is_long(line, fence):
            line = fence.opening(info=False)
        return line + "\n" + (fence.going_on if within_line else "")


def chunks_of(text: str, config: ChunkConfig) -> tuple[Chunk, ...]:
    """Cut a whole text."""
    chunker = Chunker(config)
    return (*chunker.feed(text), *chunker.finish())
