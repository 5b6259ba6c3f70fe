"""Which lines of a text became which: a line diff that stays bounded whatever it is given."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

# difflib is quadratic and worse on lines that repeat. A stretch without unique lines in common is handed to
# it up to so many pairs of lines, and no more than so many in one text; beyond, it is replaced as a whole.
_PAIRS = 40_000
_ALL_PAIRS = 400_000


class Edit(NamedTuple):
    """Lines `old_start` to `old_end` (from 0, end excluded) became `new_start` to `new_end`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def line_edits(old: list[str], new: list[str]) -> list[Edit]:
    """Return what was changed, in order; lines that occur once on both sides are the anchors."""
    budget = _ALL_PAIRS
    found: list[Edit] = []
    for gap in _gaps(old, new):
        gap = _trimmed(old, new, gap)  # noqa: PLW2901  # the same gap, without equal edges
        pairs = (gap.old_end - gap.old_start) * (gap.new_end - gap.new_start)
        if 0 < pairs <= min(_PAIRS, budget):
            budget -= pairs
            found += _matched(old, new, gap)
        elif gap.old_end > gap.old_start or gap.new_end > gap.new_start:
            found.append(gap)
    return _joined(found)


def _gaps(old: list[str], new: list[str]) -> Iterator[Edit]:
    """Split between the anchors (the longest run of unique common lines that stand in one order)."""
    whole = _trimmed(old, new, Edit(0, len(old), 0, len(new)))
    at_old, at_new = whole.old_start, whole.new_start
    for i, j in _anchors(old, new, whole):
        yield Edit(at_old, i, at_new, j)
        at_old, at_new = i + 1, j + 1
    yield Edit(at_old, whole.old_end, at_new, whole.new_end)


def _anchors(old: list[str], new: list[str], within: Edit) -> list[tuple[int, int]]:
    a, b = old[within.old_start : within.old_end], new[within.new_start : within.new_end]
    in_a, in_b = Counter(a), Counter(b)
    where = {line: j for j, line in enumerate(b) if in_b[line] == 1}
    pairs = [(i, where[line]) for i, line in enumerate(a) if in_a[line] == 1 and line in where]
    # Longest increasing subsequence of the positions in `b`: tails of the best runs of each length.
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(j)
            ends.append(k)
        else:
            tails[length], ends[length] = j, k
    run: list[tuple[int, int]] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        i, j = pairs[k]
        run.append((i + within.old_start, j + within.new_start))
        k = before[k]
    return run[::-1]


def _trimmed(old: list[str], new: list[str], gap: Edit) -> Edit:
    """Take equal lines off both ends."""
    a, b, c, d = gap
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    return Edit(a, b, c, d)


def _matched(old: list[str], new: list[str], gap: Edit) -> list[Edit]:
    from difflib import SequenceMatcher

    a, c = gap.old_start, gap.new_start
    matcher = SequenceMatcher(None, old[a : gap.old_end], new[c : gap.new_end], autojunk=False)
    return [
        Edit(a + i1, a + i2, c + j1, c + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _joined(edits: list[Edit]) -> list[Edit]:
    """Make one of neighbours that touch."""
    joined: list[Edit] = []
    for edit in edits:
        if joined and joined[-1].old_end == edit.old_start and joined[-1].new_end == edit.new_start:
            joined[-1] = Edit(joined[-1].old_start, edit.old_end, joined[-1].new_start, edit.new_end)
        else:
            joined.append(edit)
    return joined


def grouped(edits: list[Edit], context: int) -> Iterator[list[Edit]]:
    """Group edits with at most twice `context` unchanged lines between two of them."""
    group: list[Edit] = []
    for edit in edits:
        if group and edit.old_start - group[-1].old_end > 2 * context:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group
