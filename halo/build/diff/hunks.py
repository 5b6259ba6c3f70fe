"""Groups changed lines into hunks that name the segment and the source line they are about."""

from itertools import accumulate
from typing import NamedTuple

from halo.build.diff.line_edits import Edit, grouped, line_edits
from halo.build.diff.locating import Located, Place
from halo.records.artifacts import Segment
from halo.records.differences import Hunk, HunkKind

_CONTEXT = 3
# More changed text than this is not shown line by line; nobody reads it, and a report would burst.
MOST_BYTES = 1 << 20


class Lines:
    """A text in lines; each of them ends in a newline, as all text of Halo does."""

    def __init__(self, text: str) -> None:
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.starts = [0, *accumulate(len(line.encode()) + 1 for line in self.lines)]

    def size(self, start: int = 0, end: int = -1) -> int:
        """Return the bytes of a range of lines, newlines included."""
        return self.starts[end] - self.starts[start]


class Edited(NamedTuple):
    """Two texts and what was changed between them. `too_large`: too much to be shown."""

    old: Lines
    new: Lines
    edits: list[Edit]

    @property
    def removed_bytes(self) -> int:
        """Bytes of the lines that are gone."""
        return sum(self.old.size(e.old_start, e.old_end) for e in self.edits)

    @property
    def added_bytes(self) -> int:
        """Bytes of the lines that are new."""
        return sum(self.new.size(e.new_start, e.new_end) for e in self.edits)

    @property
    def too_large(self) -> bool:
        """Whether so much changed that hunks would be of no use."""
        return self.removed_bytes + self.added_bytes > MOST_BYTES


def edit_texts(old: str, new: str) -> Edited:
    """Compare two texts line by line."""
    a, b = Lines(old), Lines(new)
    return Edited(a, b, line_edits(a.lines, b.lines))


def segment_hunks(edited: Edited, old: Located, new: Located) -> tuple[Hunk, ...]:
    """Make the hunks of two prompts."""
    found = []
    for group in grouped(edited.edits, _CONTEXT):
        place = _first_place(edited, group[0], old, new)
        found.append(_hunk(edited, group, "segment", place.segment.id, place))
    return tuple(found)


def _first_place(edited: Edited, edit: Edit, old: Located, new: Located) -> Place:
    """Look up the first line of an edit: in the new text, or in the old one where lines only went."""
    if edit.new_end > edit.new_start:
        return new.place(edited.new.starts[edit.new_start])
    return old.place(edited.old.starts[edit.old_start])


def plain_hunks(kind: HunkKind, name: str, edited: Edited) -> tuple[Hunk, ...]:
    """Make the hunks of two texts that have no source map: the JSON of a tool, the few-shots."""
    if edited.too_large:
        return ()
    return tuple(_hunk(edited, group, kind, name, None) for group in grouped(edited.edits, _CONTEXT))


def whole_hunks(located: Located, mark: str) -> tuple[Hunk, ...]:
    """Make a hunk of each segment of a prompt that is there on one side only; `mark` is "+" or "-"."""
    text = Lines(located.compiled.prompt)
    found = []
    first = 0
    for segment in located.compiled.manifest.segments:
        last = first
        while last < len(text.lines) and text.starts[last] < segment.end:
            last += 1
        if last > first:
            found.append(_whole(located, segment, text, first, last, mark))
        first = last
    return tuple(found)


def _whole(located: Located, segment: Segment, text: Lines, first: int, last: int, mark: str) -> Hunk:
    place = located.place(text.starts[first])
    here, elsewhere = (first + 1, last - first), (0, 0)
    (old_start, old_count), (new_start, new_count) = (elsewhere, here) if mark == "+" else (here, elsewhere)
    lines = tuple(mark + line for line in text.lines[first:last])
    return Hunk(
        "segment", segment.id, place.source, place.line, old_start, old_count, new_start, new_count, lines
    )


def _hunk(edited: Edited, group: list[Edit], kind: HunkKind, name: str, place: Place | None) -> Hunk:
    old, new = edited.old.lines, edited.new.lines
    before = min(_CONTEXT, group[0].old_start, group[0].new_start)
    after = min(_CONTEXT, len(old) - group[-1].old_end)
    at = group[0].old_start - before
    lines: list[str] = []
    for edit in group:
        lines += [" " + line for line in old[at : edit.old_start]]
        lines += ["-" + line for line in old[edit.old_start : edit.old_end]]
        lines += ["+" + line for line in new[edit.new_start : edit.new_end]]
        at = edit.old_end
    lines += [" " + line for line in old[at : at + after]]
    old_start, new_start = group[0].old_start - before, group[0].new_start - before
    old_count, new_count = group[-1].old_end + after - old_start, group[-1].new_end + after - new_start
    return Hunk(
        kind,
        name,
        place.source if place is not None else "",
        place.line if place is not None else 0,
        old_start + 1,
        old_count,
        new_start + 1,
        new_count,
        tuple(lines),
    )
