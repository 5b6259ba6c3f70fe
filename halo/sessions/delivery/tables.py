"""The tables of a Markdown text, as GitHub knows them. Pure, linear in the text."""

import re
from collections.abc import Callable, Iterator

# The line below the head of a table, in quotes and lists, too.
_DELIMITER = re.compile(
    r"^[ \t>]*+(?:[-+*] ++)?+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+\r?$",
    re.MULTILINE,
)
_TABLE_ENDS = re.compile(r"[ \t>]*(?:\Z|\r|\n|#{1,6} |[-+*] |`{3}|~{3})")

Table = tuple[int, int, int]  # where its head begins, where the line of dashes does, where it ends


def tables_in(text: str, in_code: Callable[[int], bool]) -> Iterator[Table]:
    """Yield the tables of a text that do not stand in code."""
    last = 0
    for dashes in _DELIMITER.finditer(text):
        above = text.rfind("\n", 0, dashes.start() - 1) + 1
        head = text[above : dashes.start()]
        if "|" not in head + dashes[0] or not head.strip() or above < last or in_code(dashes.start()):
            continue
        last = rows_end(text, dashes.end() + 1)
        yield above, dashes.start(), last


def rows_end(text: str, start: int) -> int:
    """Return where the rows of a table end of which one may begin at `start`, without the line ending."""
    while start < len(text) and not _TABLE_ENDS.match(text, start):
        line_end = text.find("\n", start)
        start = line_end + 1 if line_end >= 0 else len(text) + 1
    return min(start - 1, len(text))
