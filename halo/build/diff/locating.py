"""Looks up single bytes of a prompt: which segment, which line of which source."""

from bisect import bisect_right
from typing import NamedTuple

from halo.compiler.assemble import Compiled
from halo.files.prefixes import common_prefix
from halo.records.artifacts import Segment


class Place(NamedTuple):
    """Segment `number` (from 1), and the line (from 1) of the source that a byte comes from."""

    segment: Segment
    number: int
    source: str
    line: int


class Located:
    """A prompt as bytes, with the way back to its sources."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.data = compiled.prompt.encode()
        self._segments = compiled.manifest.segments
        self._starts = [segment.start for segment in self._segments]

    def place(self, byte: int) -> Place:
        """Look up `byte` (from 0); the end of the text belongs to the last one."""
        byte = min(byte, len(self.data) - 1)
        index = bisect_right(self._starts, byte) - 1
        segment = self._segments[index]
        span = segment.spans[bisect_right(segment.spans, byte, key=lambda s: s.start) - 1]
        # Only in a verbatim span do the lines of the source go on with those of the prompt.
        passed = self.data.count(b"\n", span.start, byte) if span.verbatim else 0
        return Place(segment, index + 1, span.source, span.line + passed)


def common_characters(a: bytes, b: bytes) -> int:
    """Return with how many bytes both begin, whole characters of UTF-8 only."""
    low = common_prefix(a, b)
    while low and (_inside(a, low) or _inside(b, low)):
        low -= 1
    return low


def _inside(data: bytes, at: int) -> bool:
    """Tell whether a character goes on at `at`."""
    return at < len(data) and data[at] & 0xC0 == 0x80
