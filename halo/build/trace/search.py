"""Finds lines of a text: by number, by what they say, or by what they nearly say."""

import difflib
import re
from collections.abc import Iterator
from typing import NamedTuple

from halo.errors import UsageError

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")


class Numbers(NamedTuple):
    """Lines `first` to `last`, both included."""

    first: int
    last: int


def parse_numbers(wanted: str) -> Numbers | None:
    """Read `41` or `41-45`; None for anything else, which is a pattern then."""
    match = _NUMBERS.fullmatch(wanted) if len(wanted) < 30 and wanted.isascii() else None
    return Numbers(int(match[1]), int(match[2] or match[1])) if match else None


def compile_pattern(wanted: str, *, regex: bool) -> re.Pattern[str]:
    """Make a pattern that ignores case; without `regex` all characters stand for themselves.

    Between two words any white space matches: a sentence is found where its file wraps it. Raises
    `UsageError` for an empty pattern or a broken regular expression.
    """
    if not wanted.strip():
        raise UsageError("the pattern is empty", hint="`halo prompt --blame` shows every line")
    if not regex:
        wanted = r"\s+".join(re.escape(word) for word in wanted.split())
    try:
        return re.compile(wanted, re.IGNORECASE | re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"not a regular expression: {error}", hint="without -E all is literal") from error


def matching_lines(text: str, pattern: re.Pattern[str]) -> Iterator[int]:
    """Yield the numbers of the lines (from 1) that matches touch, each once, in order.

    Empty matches do not count.
    """
    number, position, said = 1, 0, 0
    for match in pattern.finditer(text):
        if match.start() == match.end():
            continue
        number += text.count("\n", position, match.start())
        position = match.start()
        # A newline ends its line and begins nothing.
        last = number + text.count("\n", position, match.end() - 1)
        yield from range(max(number, said + 1), last + 1)
        said = max(said, last)


# Bounds of the look for near misses, which compares letter by letter.
_LONGEST = 200  # characters of a pattern
_MOST_WINDOWS = 20_000
_NEAR = 0.7  # as difflib measures; below it, what is shown has little to do with what was asked


def near_lines(text: str, wanted: str, most: int = 3) -> list[int]:
    """Return the numbers of the lines that hold something most like `wanted`, the best first."""
    words = wanted.casefold().split()
    if not words or len(wanted) > _LONGEST:
        return []
    matcher = difflib.SequenceMatcher(None, "", " ".join(words), autojunk=False)
    best: dict[int, float] = {}
    for number, window in _windows(text, len(words)):
        matcher.set_seq1(window)
        least = max(best.get(number, 0.0), _NEAR)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            best[number] = max(matcher.ratio(), best.get(number, 0.0))
    good = [number for number, ratio in best.items() if ratio >= _NEAR]
    return sorted(good, key=lambda number: (-best[number], number))[:most]


def _windows(text: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield every run of `size` words of each line, at most 20,000."""
    left = _MOST_WINDOWS
    for number, line in enumerate(text.casefold().split("\n"), 1):
        words = line.split()
        for start in range(max(1, len(words) - size + 1) if words else 0):
            if not left:
                return
            left -= 1
            yield number, " ".join(words[start : start + size])
