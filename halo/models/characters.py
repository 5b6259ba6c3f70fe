"""Texts that can be kept: JSON may name half a character (a lone surrogate), which no file takes.

Servers that cut words by their own measure send such halves. Pure.
"""

from typing import Any

import msgspec


def whole_text(text: str) -> str:
    """Return `text` with halves that belong together joined, and the mark of what is missing for others."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_characters(value: Any) -> Any:
    """Return decoded JSON with whole characters in all its texts; nearly always the very same object.

    Raises RecursionError for what is nested beyond reason.
    """
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _mended(value)
    return value


def _mended(value: Any) -> Any:
    match value:
        case str():
            return whole_text(value)
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list():
            return [_mended(item) for item in value]
        case _:
            return value
