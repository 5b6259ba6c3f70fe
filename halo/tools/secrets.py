"""Keeps secret values out of what a model, the log and the terminal get to see."""

import base64
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

SHORTEST = 6  # characters of a value that is masked; a shorter one would hide words of any text


def masker(values: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that puts `[secret <name>]` in the place of values, however they are written.

    As they are, in JSON, in a URL, in base64 (also inside something longer), in hexadecimal. `values` are
    names with values; those with fewer than `SHORTEST` characters are left out. Parts are not found.
    """
    names: dict[str, str] = {}
    for name, value in values:
        if len(value) >= SHORTEST:
            for spelling in _spellings(value):
                names.setdefault(spelling, name)
    if not names:
        return lambda text: text
    # The longest first: a value may begin with another.
    pattern = re.compile("|".join(re.escape(s) for s in sorted(names, key=len, reverse=True)))
    return lambda text: pattern.sub(lambda match: f"[secret {names[match[0]]}]", text)


def _spellings(value: str) -> Iterator[str]:
    """Yield how a value may be written; every spelling is as hard to meet by chance as the value."""
    data = value.encode("utf-8", "surrogateescape")
    yield value
    if value.strip() != value and len(value.strip()) >= SHORTEST:
        yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    for safe in ("", "/"):
        yield urllib.parse.quote(value, safe=safe, errors="surrogateescape")
        yield urllib.parse.quote_plus(value, safe=safe, errors="surrogateescape")
    yield data.hex()
    yield from _base64(data)


def _base64(data: bytes) -> Iterator[str]:
    """Yield the characters of base64 that stand for `data` alone, wherever in a longer text it lies."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        # The first and last characters hold bits of what stands around it.
        first = (before * 8 + 5) // 6
        last = (before + len(data)) * 8 // 6
        certain = text[first:last]
        if len(certain) >= SHORTEST:
            yield certain
            yield certain.replace("+", "-").replace("/", "_")
