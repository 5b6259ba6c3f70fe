"""Where a text may be cut without cutting what a reader sees as one character."""

from functools import lru_cache
from typing import Any

# Characters that no later one joins, but for CR LF: between two of them there is always a boundary.
_PLAIN = frozenset(map(chr, range(0x20, 0x7F)))


def is_boundary(text: str, at: int) -> bool:
    """Tell whether `at` does not lie within a grapheme (an extended grapheme cluster of Unicode)."""
    return at <= 0 or at >= len(text) or boundary_before(text, at) == at


def boundary_before(text: str, at: int) -> int:
    """Return the last boundary that is not after `at`; 0 where the first grapheme is longer."""
    if not 0 < at < len(text):
        return max(0, min(at, len(text)))
    start = at
    while start > 0 and not (text[start - 1] in _PLAIN and text[start] in _PLAIN):
        start -= 1
    if start == at:
        return at
    for cluster in _clusters().finditer(text, start):
        if cluster.end() > at:
            return int(cluster.start())
        if cluster.end() == at:
            return at
    return at


@lru_cache(maxsize=1)
def _clusters() -> Any:
    import regex

    return regex.compile(r"\X")
