"""Weaves imported texts into the text that names them, so that every run still leads to its file."""

from typing import NamedTuple

from halo.workspace.instructions.foreign import shown
from halo.workspace.instructions.references import Reference
from halo.workspace.layers import Layer, one_line


class Run(NamedTuple):
    """A run of text from one place: verbatim from `source` at `line`, or made because of that line."""

    text: str
    source: str
    line: int
    verbatim: bool


class Weaver:
    """One text and what is brought into it.

    A reference that is alone on its line gives way to what it brings. Any other stays, and the text follows
    the block that it stands in, with its name above. A blank line divides what comes from different files.
    """

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._inserts: list[tuple[int, int, tuple[Run, ...]]] = []
        self._runs: list[Run] = []
        self._position = 0
        self._line = layer.line
        self._behind_insert = False

    def bring(self, reference: Reference, found: Layer, runs: tuple[Run, ...]) -> None:
        """Note what a reference brings."""
        body = self._layer.body
        if body[reference.line_start : reference.line_end].strip() == body[reference.start : reference.end]:
            self._inserts.append((reference.line_start, reference.line_end, runs))
            return
        title = f"Contents of {one_line(shown(found.source))}:\n\n"
        made = Run(title, self._layer.source, self._layer.line + reference.line, verbatim=False)
        self._inserts.append((reference.block_end, reference.block_end, (made, *runs)))

    def weave(self) -> tuple[Run, ...]:
        """Return the whole text; to be called once."""
        for start, end, runs in sorted(self._inserts, key=lambda insert: insert[:2]):
            self._copy(start)
            self._end_block()
            self._runs += runs
            self._position = end
            self._behind_insert = True
        self._copy(len(self._layer.body))
        return tuple(self._runs)

    def _copy(self, end: int) -> None:
        """Copy the layer's own text up to `end`."""
        text = self._layer.body[self._position : end]
        if not text:
            return
        if self._behind_insert and text.strip() and not text.startswith("\n\n"):
            self._made("\n")
        self._runs.append(Run(text, self._layer.source, self._line, verbatim=True))
        self._line += text.count("\n")
        self._behind_insert = False

    def _end_block(self) -> None:
        """Put a blank line behind what is there."""
        tail = "".join(run.text for run in self._runs[-2:])[-2:]
        ends = len(tail) - len(tail.rstrip("\n"))
        if self._runs and ends < 2:
            self._made("\n" * (2 - ends))

    def _made(self, text: str) -> None:
        self._runs.append(Run(text, self._layer.source, self._line, verbatim=False))
