"""What within a paragraph is not to be cut: code, links, pictures, addresses, emphasis. Pure.

Code, addresses and links are found as CommonMark 6 finds them; emphasis by a simpler rule, which may keep
together what is none. A construct that is longer than a message is left out: it has to be cut anyway.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<escape>\\[!-/:-@\[-`{-~])
    | (?P<ticks>`+)
    | (?P<address><(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*|[^\s<>@]{1,200}@[^\s<>]{1,200}|/?[A-Za-z][^<>]*)>)
    | (?P<bare>(?:https?://|ftp://|www\.)[^\s<]+)
    | (?P<entity>&\#?\w{1,31};)
    | (?P<open>!?\[)
    | (?P<close>\])
    | (?P<marks>\*{1,3}|_{1,3}|~~)
    """,
    re.VERBOSE,
)
# What follows the text of a link: where it leads and its title, or the name of a definition.
_TARGET = re.compile(
    r"""
    \(\s*+
      (?: <[^<>\n]*> | [^\s()<][^\s()]*(?:\((?:[^\s()]|\([^\s()]*\))*\)[^\s()]*)* | )
      (?: \s+ (?: "[^"]{0,1000}" | '[^']{0,1000}' | \([^()]{0,1000}\) ) )?
    \s*\)
    | \[[^\[\]]{0,999}\]
    """,
    re.VERBOSE,
)
# Lines that begin a block: no construct reaches across one. A heading is a block by itself.
_BLOCK = re.compile(
    r"^(?:[ \t]*\r?$|[ \t>]*"
    r"(?:(?P<single>(?:#{1,6}[ \t]|\|)[^\n]*)|[-+*][ \t]|\d{1,9}[.)][ \t]|>|`{3}|~{3}))",
    re.MULTILINE,
)

Span = tuple[int, int]


class Inlines:
    """The constructs of a text, looked for only in the blocks that somebody asks about.

    `longest`: a construct of more characters is no construct.
    """

    def __init__(self, text: str, longest: int) -> None:
        self._text, self._longest = text, longest
        starts = [0]
        for block in _BLOCK.finditer(text):
            starts.append(block.start())
            if block["single"]:
                starts.append(block.end() + 1)
        self._starts = [*starts, len(text)]
        self._spans: dict[int, tuple[Span, ...]] = {}

    def around(self, at: int) -> Span | None:
        """Return the outermost construct that a cut at `at` would tear."""
        block = bisect_right(self._starts, at) - 1
        if block < 0 or self._starts[block] == at:
            return None
        spans = self._spans.get(block)
        if spans is None:
            end = self._starts[block + 1] if block + 1 < len(self._starts) else len(self._text)
            found = constructs(self._text[self._starts[block] : end], self._starts[block])
            spans = self._spans[block] = tuple(s for s in found if s[1] - s[0] <= self._longest)
        around = [span for span in spans if span[0] < at < span[1]]
        return min(around, default=None)


def constructs(text: str, offset: int = 0) -> Iterator[Span]:
    """Yield where the constructs of one block begin and end, plus `offset`; they may stand in one another."""
    runs = _runs(text)
    brackets: list[int] = []
    marks: dict[str, int] = {}
    at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        start, at = token.span()
        kind = token.lastgroup
        if kind == "ticks":
            end = _closing_run(runs, token[0], at)
            if end is not None:
                yield start + offset, end + offset
                at = end
        elif kind == "open":
            brackets.append(start)
        elif kind == "close":
            if brackets:
                target = _TARGET.match(text, at)
                at = target.end() if target is not None else at
                yield brackets.pop() + offset, at + offset
        elif kind == "marks":
            opened = _emphasis(text, token, marks)
            if opened is not None:
                yield opened + offset, at + offset
        elif kind == "bare" and brackets:
            # In the text of a link it ends where that does.
            end = text.find("]", start, at)
            at = end if end >= 0 else at
            yield start + offset, at + offset
        else:
            yield start + offset, at + offset


def _runs(text: str) -> dict[str, list[int]]:
    """Return where runs of backticks begin, by run."""
    runs: dict[str, list[int]] = {}
    for run in re.finditer("`+", text):
        runs.setdefault(run[0], []).append(run.start())
    return runs


def _closing_run(runs: dict[str, list[int]], run: str, after: int) -> int | None:
    """Return where code that begins with `run` before `after` ends."""
    starts = runs.get(run, [])
    index = bisect_right(starts, after - 1)
    return starts[index] + len(run) if index < len(starts) else None


def _emphasis(text: str, token: "re.Match[str]", marks: dict[str, int]) -> int | None:
    """Return where emphasis began that this mark ends; else note the mark, if it may begin some."""
    mark, (start, end) = token[0], token.span()
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    within = before.isalnum() and after.isalnum()
    if mark in marks and not before.isspace() and not (mark[0] == "_" and after.isalnum()):
        return marks.pop(mark)
    if not after.isspace() and not (mark[0] == "_" and within):
        marks[mark] = start
    return None
