"""The first byte at which two texts differ, with what stands there on both sides. Pure."""

import msgspec

from halo.files.prefixes import common_prefix

_SHOWN = 48  # bytes of a side that are shown
_BEFORE = 12  # of them before the difference


class ByteDifference(msgspec.Struct, frozen=True):
    """`at` counts from 0; `before` and `after` are quoted snippets around it, `the end` where a side ends."""

    at: int
    before: str
    after: str


def first_difference(before: bytes, after: bytes) -> ByteDifference:
    """Return the first difference of two UTF-8 texts; of equal ones, their end."""
    at = common_prefix(before, after)
    return ByteDifference(at, _snippet(before, at), _snippet(after, at))


def _snippet(text: bytes, at: int) -> str:
    if at >= len(text):
        return "the end"
    start = max(0, at - _BEFORE)
    shown = text[start : start + _SHOWN].decode("utf-8", "replace")
    return ("…" if start else "") + repr(shown) + ("…" if start + _SHOWN < len(text) else "")
