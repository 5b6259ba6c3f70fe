"""`halo diff` for the terminal."""

import re
from difflib import SequenceMatcher

import click

from halo.cli.diff_patch import errors, kept, others, patch, plus_minus, position, state
from halo.records.differences import Comparison, Difference
from halo.records.targets import AgentTarget

_WIDEST = 40  # of the column with the targets
_FEW = 10  # unchanged agents that are named

# Changed words are looked for in so many neighbouring lines of so many characters; it is a matter of comfort.
_MOST_LINES = 20
_LONGEST = 1000
_ALIKE = 0.3


def text(comparison: Comparison, *, colour: bool) -> str:
    """Write a summary with a row or more for each target, then the changed lines of each."""
    labels = {difference.target.name: difference.label for difference in comparison.affected}
    agents = [t.label for t in comparison.unchanged if isinstance(t, AgentTarget)]
    named = agents if len(agents) <= _FEW else []
    width = min(max((len(label) for label in [*labels.values(), *named]), default=0), _WIDEST) + 4
    lines = [f"{state(comparison.old)} → {state(comparison.new)}"]
    for difference in comparison.affected:
        first, *rest = _summary(comparison, difference, labels)
        lines.append(_bold(difference.label.ljust(width - 2), colour=colour) + "  " + first)
        lines += [" " * width + row for row in rest]
    lines += [label.ljust(width) + "unchanged" for label in named]
    if left := len(comparison.unchanged) - len(named):
        lines.append(f"{left:,} {'more ' if named or labels else ''}unchanged")
    for difference in comparison.affected:
        if not difference.same_as and (found := patch(difference)):
            lines += ["", _bold(difference.label, colour=colour)]
            lines += _coloured(found) if colour else found
    return "\n".join(lines) + "\n"


def _summary(comparison: Comparison, difference: Difference, labels: dict[str, str]) -> list[str]:
    rows = errors(comparison, difference)
    if difference.change in ("added", "removed"):
        size = difference.added_tokens or difference.removed_tokens
        rows.insert(0, difference.change + (f"   ≈ {size:,} tokens" if size else ""))
    elif difference.first_change is not None:
        rows.append(f"≈ {plus_minus(difference)} tokens   first change: {position(difference.first_change)}")
    elif not rows:
        rows.append("same text")
    if difference.cache is not None:
        rows.append(kept(difference.cache))
    if beside := others(difference):
        rows.append(f"also changed: {beside}")
    if difference.too_large:
        rows.append("too much changed to be shown line by line")
    if difference.same_as:
        rows.append(f"the same lines as {labels[difference.same_as]}")
    return rows


def _bold(words: str, *, colour: bool) -> str:
    return click.style(words, bold=True) if colour else words


def _coloured(lines: list[str]) -> list[str]:
    found: list[str] = []
    i = 0
    while i < len(lines):
        gone = _run(lines, i, "-")
        came = _run(lines, i + len(gone), "+")
        if gone or came:
            found += _replaced(gone, came)
            i += len(gone) + len(came)
        else:
            head = lines[i].startswith("@@")
            found.append(click.style(lines[i], fg="cyan") if head else lines[i])
            i += 1
    return found


def _run(lines: list[str], start: int, mark: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith(mark):
        end += 1
    return lines[start:end]


def _replaced(gone: list[str], came: list[str]) -> list[str]:
    """Colour lines that took each other's place; in pairs that are alike the changed words stand out."""
    red = [click.style(line, fg="red") for line in gone]
    green = [click.style(line, fg="green") for line in came]
    if len(gone) == len(came) <= _MOST_LINES:
        for i, (a, b) in enumerate(zip(gone, came, strict=True)):
            if max(len(a), len(b)) <= _LONGEST:
                red[i], green[i] = _emphasised(a, b) or (red[i], green[i])
    return red + green


def _emphasised(old: str, new: str) -> tuple[str, str] | None:
    a, b = (re.findall(r"\w+|\s+|[^\w\s]", line[1:]) for line in (old, new))
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return None
    left, right = click.style("-", fg="red"), click.style("+", fg="green")
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        stands_out = tag != "equal"
        left += click.style("".join(a[i1:i2]), fg="red", reverse=stands_out) if i2 > i1 else ""
        right += click.style("".join(b[j1:j2]), fg="green", reverse=stands_out) if j2 > j1 else ""
    return left, right
