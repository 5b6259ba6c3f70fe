"""Where each line of an assembled prompt comes from, by the spans of its manifest."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from halo.records.artifacts import Manifest, Segment, Slot, Span

How = Literal["verbatim", "derived", "slot"]


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a prompt line and the line of the layer that it comes from.

    `how`: `verbatim` as it stands there, `derived` made from that line (a heading, a roster entry, the value
    of a placeholder), `slot` filled when a turn starts. `hides` names the sources of other scopes that would
    have stood here.
    """

    text: str
    source: str
    line: int
    how: How
    slot: Slot | None = None
    hides: tuple[str, ...] = ()


class PromptLine(msgspec.Struct, frozen=True):
    """A line of a prompt, from 1, without its newline; `segment` is the id of its segment."""

    number: int
    text: str
    segment: str
    origins: tuple[Origin, ...]


class _Run(NamedTuple):
    segment: Segment
    span: Span


def prompt_lines(prompt: str, manifest: Manifest) -> list[PromptLine]:
    """Return every line of `prompt` with all that it is made of, in order.

    A newline is the end of its line and no part of it, but for an empty line, which consists of nothing else.
    """
    data = prompt.encode()
    runs = [_Run(segment, span) for segment in manifest.segments for span in segment.spans]
    slots = {(slot.start, slot.end): slot for slot in manifest.slots}
    found: list[PromptLine] = []
    first = 0  # the first run that reaches into the line
    began: dict[int, int] = {}  # by run, the line in which it begins
    start = 0
    while start < len(data):
        number = len(found) + 1
        newline = data.find(b"\n", start)
        end = newline if newline >= 0 else len(data)
        reach = max(end, start + 1)
        while runs[first].span.end <= start:
            first += 1
        origins: list[Origin] = []
        for i in _within(runs, first, reach):
            # One that begins with the newline of the line before is not seen there.
            began.setdefault(i, number - (runs[i].span.start < start))
            part = data[max(start, runs[i].span.start) : min(reach, runs[i].span.end)]
            origins.append(_origin(runs[i], part, number - began[i], slots))
        found.append(PromptLine(number, data[start:end].decode(), runs[first].segment.id, tuple(origins)))
        start = end + 1
    return found


def _within(runs: list[_Run], first: int, reach: int) -> Iterator[int]:
    """Yield the runs that begin before `reach`, as indices."""
    for i in range(first, len(runs)):
        if runs[i].span.start >= reach:
            return
        yield i


def _origin(run: _Run, part: bytes, passed: int, slots: dict[tuple[int, int], Slot]) -> Origin:
    """Say what `part` of a line owes to a span that began `passed` lines before."""
    segment, span = run
    slot = slots.get((span.start, span.end))
    return Origin(
        text=part.decode().removesuffix("\n"),
        source=span.source,
        # Only in a verbatim span do the lines of the source go on with those of the prompt.
        line=span.line + passed if span.verbatim else span.line,
        how="slot" if slot is not None else "verbatim" if span.verbatim else "derived",
        slot=slot,
        hides=segment.hides if _folder(span.source) == _folder(segment.source) else (),
    )


def _folder(source: str) -> str:
    """Return what serves a source: `hides` speaks of its segment's file or folder, not of a value's."""
    return source.rpartition("/")[0] or source.partition(":")[0]
