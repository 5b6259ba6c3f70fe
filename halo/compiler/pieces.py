"""The stuff that prompts are made of: pieces of text that know where they come from."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from halo.records.artifacts import Scope
from halo.workspace.layers import Layer
from halo.workspace.suppressions import MARKDOWN

# Where text comes from that no layer holds: the rules of composition themselves.
RULES = "halo:compiler"


class Fill(NamedTuple):
    """A piece that is a slot: its name, where the value will come from, and the unexpanded value."""

    name: str
    origin: Literal["builtin", "session", "settings", "environment"]
    template: str = ""


class Piece(NamedTuple):
    """A run of text from one place: verbatim from `source` at `line`, or derived from that line."""

    text: str
    source: str
    line: int
    verbatim: bool = False
    fill: Fill | None = None


class Part(NamedTuple):
    """A segment before it is laid out.

    `section`: it is divided from a neighbouring section by a rule (`---`), not by a blank line alone.
    `hides` names sources of other scopes that it takes the place of.
    """

    id: str
    kind: str
    scope: Scope
    source: str
    pieces: tuple[Piece, ...]
    section: bool = False
    hides: tuple[str, ...] = ()


def verbatim(layer: Layer) -> Piece:
    """Take a layer's body as it is."""
    return Piece(layer.body, layer.source, layer.line, verbatim=True)


def titled(part_id: str, kind: str, title: str, layer: Layer) -> Part:
    """Make a section of a layer: a heading, a blank line, the body."""
    heading = Piece(f"## {title}\n\n", layer.source, layer.line)
    return Part(part_id, kind, layer.scope, layer.source, (heading, verbatim(layer)), True, layer.hides)


def without_suppressions(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Leave the lines out that only switch off a rule of `halo check`: they are not for the model."""
    line_start = True
    for piece in pieces:
        text, line = piece.text, piece.line
        if piece.verbatim and "halo:" in text:
            position = 0
            for match in MARKDOWN.finditer(text):
                if match.start() == 0 and not line_start:
                    continue  # it stands behind something on its line
                if match.start() > position:
                    yield piece._replace(text=text[position : match.start()], line=line)
                line += text.count("\n", position, match.end())
                position = match.end()
            text = text[position:]
        if text:
            yield piece._replace(text=text, line=line)
        line_start = piece.text.endswith("\n") if piece.text else line_start
