"""A message's worth of an answer, and how large one may be."""

from typing import Literal

import msgspec

BreakPreference = Literal["paragraph", "newline", "sentence"]

# More characters than any text has: no limit.
UNLIMITED = 1 << 60


class ChunkConfig(msgspec.Struct, frozen=True):
    """How a text is cut.

    `max_chars` bounds a chunk, synthetic lines included; 0 or less: nothing is cut for its length.
    `min_chars`: breaks before it are taken only where there is no other. `break_preference` is the first kind
    of break that is looked for. With `by_paragraph` every blank line ends a chunk that has `min_chars`.
    `max_lines` bounds the lines of a chunk; 0: any number.
    """

    min_chars: int = 800
    max_chars: int = 1200
    break_preference: BreakPreference = "paragraph"
    by_paragraph: bool = False
    max_lines: int = 0

    @property
    def limit(self) -> int:
        """The most characters of a chunk."""
        return self.max_chars if self.max_chars > 0 else UNLIMITED

    @property
    def least(self) -> int:
        """The characters before which no break is wanted."""
        return max(1, min(self.min_chars, self.limit))


class Chunk(msgspec.Struct, frozen=True):
    """A part of an answer.

    `text` is what is sent: `opening`, what of the answer it shows, `closing`. The lines `opening` and
    `closing` are Halo's own: they open and close a block of code that goes on in another chunk. `source` is
    the part of the answer that it stands for, `separator` what follows there before the next one: all sources
    and separators joined are the answer.
    """

    text: str
    source: str
    separator: str = ""
    opening: str = ""
    closing: str = ""
