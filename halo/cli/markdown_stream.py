"""Markdown that comes in pieces: the blocks that are whole, and the last one, which may still grow."""

import re
from typing import TYPE_CHECKING

from halo.files.visible import visible

if TYPE_CHECKING:
    from rich.markdown import Markdown

_LINE_END = re.compile(r"\r\n?|\n")

# Of an open block of this size the end is shown as it is written, until it is whole.
_LARGE = 6_000  # characters


class MarkdownStream:
    """Takes pieces of a text and gives back its blocks, each once, as soon as another one has begun.

    Together with `rest` they are the text.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._look_at = 0  # characters: a block that only grows is not read again at every piece

    def add(self, piece: str) -> str:
        """Return what has become whole with this piece; empty for nothing."""
        self.rest += piece
        if "\n" not in piece or len(self.rest) < self._look_at:
            return ""
        end = _last_block(self.rest)
        whole, self.rest = self.rest[:end], self.rest[end:]
        self._look_at = len(self.rest) + len(self.rest) // 10
        return whole

    def end(self) -> str:
        """Return the last block: the text is over."""
        whole, self.rest, self._look_at = self.rest, "", 0
        return whole


def _last_block(text: str) -> int:
    """Return where the last block at the top of a Markdown text begins."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map is not None]
    if len(starts) < 2:
        return 0
    ends = [match.end() for match in _LINE_END.finditer(text)]
    return ends[starts[-1] - 1]


def safe(text: str) -> str:
    """Return a text in which nothing but its line breaks acts on a terminal."""
    return "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))


def rendered(text: str, width: int) -> str:
    """Render Markdown of a stranger for a terminal, with its colours; every line of it is there."""
    return _printed(_markdown(safe(text)), width) + "\n"


def preview(text: str, width: int, height: int) -> str:
    """Render the end of a text that still grows: its last `height` lines."""
    if not text.strip() or height <= 0:
        return ""
    if len(text) > _LARGE:
        lines = safe(text[-_LARGE:]).split("\n")[1:]
    else:
        lines = _printed(_markdown(safe(text)), width).rstrip("\n").split("\n")
    return "\n".join(lines[-height:]) + "\n"


def _markdown(text: str) -> "Markdown":
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    made = Markdown("", hyperlinks=False)
    # Without HTML, which would not be shown at all.
    made.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    return made


def _printed(what: object, width: int) -> str:
    import io

    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=max(20, width), legacy_windows=False)
    console.print(what, highlight=False)
    return out.getvalue()
