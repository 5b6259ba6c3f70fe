"""The blocks of a Markdown text that decide where it may be cut: fenced code, and tables outside of it.

After CommonMark 4.5 and the container blocks of 5.1 to 5.3: a fence may stand in quotes and list items, and
ends with them. Blocks of HTML are not known: a fence within one counts as a fence. Pure, linear in the text.
"""

import re
from functools import cached_property, lru_cache
from typing import NamedTuple

from halo.sessions.delivery.tables import Table, tables_in

EOL = re.compile(r"\r\n?|\n")

_FENCE = re.compile(r"(?:(?P<ticks>`{3,})(?P<info>[^`]*)|(?P<waves>~{3,})(?P<rest>.*))\Z", re.DOTALL)
_ITEM = re.compile(r"(?P<marker>[-+*]|\d{1,9}[.)])(?:(?P<gap> {1,4})(?! )| |\Z)")
_RULE = re.compile(r"(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,}|=+ *)\Z")
_HEADING = re.compile(r"#{1,6}(?: |\Z)")
# What the first character of a line says about blocks; all others begin plain text.
_TELLING = frozenset(" \t>`~-+*_#=0123456789")


class Container(NamedTuple):
    """A quote (no marker) or a list item; `width` is how far its content stands from where it begins."""

    marker: str = ""
    lead: int = 0
    width: int = 0

    @property
    def opening(self) -> str:
        """What a line begins with that opens it."""
        gap = self.width - self.lead - len(self.marker)
        return " " * self.lead + self.marker + " " * gap if self.marker else "> "

    @property
    def going_on(self) -> str:
        """What a line begins with that belongs to it."""
        return " " * self.width if self.marker else "> "


class Fence(NamedTuple):
    """A block of fenced code in a text.

    `start`: where its opening line begins. `body`: where the line after that begins. `close`: where its
    closing line begins, -1 where it has none. `end`: where it is over, the last line ending left out.
    """

    containers: tuple[Container, ...]
    indent: int
    marker: str
    info: str
    start: int
    body: int
    close: int = -1
    end: int = -1

    @property
    def is_open(self) -> bool:
        """Whether the text ends within it."""
        return self.end < 0

    @property
    def going_on(self) -> str:
        """What a line of its code begins with because of the blocks around it."""
        return "".join(container.going_on for container in self.containers)

    @property
    def closing(self) -> str:
        """A line that closes it."""
        return self.going_on + " " * self.indent + self.marker

    def opening(self, *, info: bool) -> str:
        """Return a line that opens it again in a text of its own, the blocks around it included."""
        around = "".join(container.opening for container in self.containers)
        return around + " " * self.indent + self.marker + (self.info if info else "")

    def closed_by(self, line: str) -> bool:
        """Tell whether `line`, what the blocks around it need already taken off, closes it."""
        inner = line.strip(" \t")
        return (
            len(inner) >= len(self.marker)
            and inner == self.marker[0] * len(inner)
            and len(line) - len(line.lstrip(" ")) <= 3
        )


class Layout:
    """The fences of a text in order, and its tables, which are looked for when somebody asks."""

    def __init__(self, text: str, fences: tuple[Fence, ...]) -> None:
        self._text = text
        self.fences = fences

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables outside of code."""
        if "|" not in self._text:
            return ()
        return tuple(tables_in(self._text, lambda at: self.fence_at(at) is not None))

    def fence_at(self, at: int) -> Fence | None:
        """Return the fence that a cut at `at` would tear: between its first line and its last."""
        for fence in reversed(self.fences):
            if fence.start < at:
                return fence if fence.is_open or at < fence.end else None
        return None

    def table_at(self, at: int) -> Table | None:
        """Return the table in which `at` lies."""
        return next((table for table in self.tables if table[0] < at < table[2]), None)


def lay_out(text: str) -> Layout:
    """Find the fences and tables of a text that stands by itself."""
    scan = _Scan()
    start, length = 0, len(text)
    plain = "\r" not in text
    while start < length:
        if plain and scan.fence is not None and not scan.stack:
            # Nothing but its closing line ends it.
            closing = _closing_line(scan.fence.marker).search(text, start)
            if closing is None:
                break
            start = closing.start()
        end, after = _line_end(text, start, plain=plain)
        if scan.fence is None and not scan.stack and text[start] not in _TELLING:
            scan.paragraph = end > start
        else:
            scan.line(text[start:end], start, end, after)
        scan.last_end = end
        start = after
    return Layout(text, scan.result())


def _line_end(text: str, start: int, *, plain: bool) -> tuple[int, int]:
    """Return where the line from `start` ends and where the next one begins."""
    if plain:
        end = text.find("\n", start)
        return (end, end + 1) if end >= 0 else (len(text), len(text))
    found = EOL.search(text, start)
    return found.span() if found is not None else (len(text), len(text))


@lru_cache(maxsize=64)
def _closing_line(marker: str) -> "re.Pattern[str]":
    return re.compile(rf"^ {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*$", re.MULTILINE)


class _Scan:
    """Reads line by line: which containers are open, whether a paragraph is, and which fence."""

    def __init__(self) -> None:
        self.stack: list[Container] = []
        self.paragraph = False
        self.begun = False  # the last line only began an item: a blank one ends it
        self.fence: Fence | None = None
        self.fences: list[Fence] = []
        self.last_end = 0

    def result(self) -> tuple[Fence, ...]:
        """Return the fences so far, the open one last."""
        return (*self.fences, self.fence) if self.fence is not None else tuple(self.fences)

    def line(self, line: str, start: int, end: int, after: int) -> None:
        """Read the line `text[start:end]`; the next one begins at `after`."""
        if "\t" in line:
            line = line.expandtabs(4)
        matched, rest = self._going_on(line)
        if self.fence is not None:
            if matched == len(self.stack):
                if self.fence.closed_by(rest):
                    self._end_fence(start, end)
                return
            self._end_fence(-1, self.last_end)  # the block around it is over
        self._outside(rest, matched, start, after)

    def _end_fence(self, close: int, end: int) -> None:
        assert self.fence is not None  # noqa: S101  # who calls this has looked
        self.fences.append(self.fence._replace(close=close, end=end))
        self.fence, self.paragraph = None, False

    def _going_on(self, line: str) -> tuple[int, str]:
        """Return how many open containers the line goes on with, and what of it stands within them."""
        rest = line
        for matched, container in enumerate(self.stack):
            inner = rest.lstrip(" ")
            indent = len(rest) - len(inner)
            if container.marker:
                if inner and indent < container.width:
                    return matched, rest
                rest = rest[container.width :]
            elif indent <= 3 and inner.startswith(">"):
                rest = inner[2:] if inner.startswith("> ") else inner[1:]
            else:
                return matched, rest
        return len(self.stack), rest

    def _outside(self, rest: str, matched: int, start: int, after: int) -> None:
        """Read a line that is no code: it may open containers and a fence, or go on with a paragraph."""
        interrupts = self.paragraph and matched == len(self.stack)
        opened, rest, found = _opened(rest, interrupts=interrupts)
        stack = (*self.stack[:matched], *opened)
        blank = not rest.strip()
        if found is not None:
            indent, marker, info = found
            self.stack, self.paragraph = list(stack), False
            self.fence = Fence(stack, indent, marker, info, start, after)
        elif _is_line_block(rest):
            self.stack, self.paragraph = list(stack), False
        elif self.paragraph and not opened and not blank:
            pass  # the paragraph goes on, whatever quote or item its other lines said they are in
        else:
            ended = blank and self.begun and not opened
            self.stack = list(stack[:-1] if ended and len(stack) == len(self.stack) else stack)
            self.paragraph = not blank and not rest.startswith("    ")
        self.begun = blank and found is None and bool(opened) and bool(opened[-1].marker)


def _is_line_block(rest: str) -> bool:
    """Tell whether a line is a heading or a rule."""
    inner = rest.lstrip(" ")
    return len(rest) - len(inner) <= 3 and bool(_HEADING.match(inner) or _RULE.match(inner))


def _opened(rest: str, *, interrupts: bool) -> tuple[tuple[Container, ...], str, tuple[int, str, str] | None]:
    """Return the containers that a line opens, what is left of it, and a fence: indent, marker, info."""
    opened: list[Container] = []
    while True:
        inner = rest.lstrip(" ")
        indent = len(rest) - len(inner)
        if not inner or indent >= 4 or _RULE.match(inner):
            return tuple(opened), rest, None
        if inner[0] == ">":
            rest = inner[2:] if inner.startswith("> ") else inner[1:]
            opened.append(Container())
        elif inner[0] in "`~":
            fence = _FENCE.match(inner)
            if fence is None:
                return tuple(opened), rest, None
            marker = fence["ticks"] or fence["waves"]
            return tuple(opened), rest, (indent, marker, fence["info"] or fence["rest"] or "")
        else:
            item = _ITEM.match(inner)
            if item is None or (interrupts and not opened and not _may_interrupt(item, inner)):
                return tuple(opened), rest, None
            marker = item["marker"]
            gap = item["gap"] if inner[item.end() :].strip() else None
            width = indent + len(marker) + len(gap or " ")
            rest = rest[width:]
            opened.append(Container(marker, indent, width))


def _may_interrupt(item: "re.Match[str]", line: str) -> bool:
    """Tell whether an item may follow the line of a paragraph: not an empty one, nor a number but 1."""
    marker = item["marker"]
    return bool(line[item.end() :].strip()) and (marker in "-+*" or int(marker[:-1]) == 1)
