"""Finds the `@path` references in Markdown, outside code and comments.

Blocks are those of CommonMark, as markdown-it-py finds them; it is imported only for a text that has a
candidate. Within a block, code spans are runs of backticks of equal length, and comments end at `-->`.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

# What stands behind white space, up to white space; a blank in a name is written `\ `.
_CANDIDATE = re.compile(r"(?<!\S)@(?P<path>(?:[^\s\\]|\\ )+)")
_TICKS = re.compile(r"`+")
_OPENING = re.compile(r"\\[\\`<]|`+|<!--")


class Block(NamedTuple):
    """Lines of text, from 0, the last one excluded; `end` is where its construct ends, underline included."""

    first: int
    last: int
    end: int


class Reference(NamedTuple):
    """A reference: where it stands in the text, what it names, and where the block that holds it ends.

    `line` is its line from 0, which begins at `line_start` and ends, without its newline, at `line_end`.
    """

    start: int
    end: int
    path: str
    line: int
    line_start: int
    line_end: int
    block_end: int


def find_references(text: str) -> Iterator[Reference]:
    """Yield the references of `text` in order. A text without candidates costs nothing."""
    if _CANDIDATE.search(text) is None:
        return
    starts = _line_starts(text)
    for block in _blocks(text):
        first, last = starts[block.first], starts[block.last] - 1
        hidden = list(_hidden(text[first:last]))
        opens = [start for start, _ in hidden]
        number = block.first
        for match in _CANDIDATE.finditer(text, first, last):
            at = bisect_left(opens, match.start() - first + 1) - 1
            if at >= 0 and match.start() - first < hidden[at][1]:
                continue
            while starts[number + 1] <= match.start():
                number += 1
            line = (number, starts[number], starts[number + 1] - 1)
            path = match["path"].replace("\\ ", " ")
            yield Reference(match.start(), match.end(), path, *line, starts[block.end] - 1)


def prose_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `text` that are neither code nor comments, in order. Its lines end in LF."""
    starts = _line_starts(text)
    for block in _blocks(text):
        first, last = starts[block.first], starts[block.last] - 1
        position = first
        for start, end in _hidden(text[first:last]):
            yield position, first + start
            position = first + end
        yield position, last


def _line_starts(text: str) -> list[int]:
    """Return where each line begins, and where one behind the last would."""
    return list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))


def _blocks(text: str) -> Iterator[Block]:
    """Yield the blocks that hold prose or HTML: neither fences nor indented code."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").disable(["inline", "text_join", "reference"])
    count = text.count("\n") + 1
    above: list[int] | None = None
    for token in parser.parse(text):
        if token.type in ("inline", "html_block") and token.map is not None:
            first, last = token.map
            end = above[1] if token.type == "inline" and above is not None else last
            yield Block(first, min(last, count), min(end, count))
        above = token.map


def _hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of code spans and comments in the text of one block, in order."""
    closing: dict[int, list[int]] = {}
    for run in _TICKS.finditer(text):
        closing.setdefault(len(run[0]), []).append(run.start())
    last_comment = text.rfind("-->")
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        position = match.end()
        if match[0] == "<!--" and position <= last_comment:
            position = text.index("-->", position) + 3
        elif match[0][0] == "`":
            ends = closing.get(len(match[0]), [])
            at = bisect_left(ends, match.end())
            if at == len(ends):
                continue
            position = ends[at] + len(match[0])
        else:
            continue
        yield match.start(), position
