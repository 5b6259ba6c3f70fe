"""Keeps secret values out of what a model, the log and the terminal get to see."""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator

_BROWSER = "!'()*"  # what encodeURIComponent leaves as it is, beside what urllib does

SHORTEST = 6  # characters of a value that is masked; a shorter one would hide words of any text


def masker(values: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that puts `[secret <name>]` in the place of values, however they are written.

    As they are; in JSON, also inside a string of JSON; in a URL, as Python, browsers and others write them;
    in HTML; in base64, also inside something longer; in hexadecimal. `values` are names with values; those
    with fewer than `SHORTEST` characters are left out. Parts are not found.
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
    for inside in (_json(value), [again for once in _json(value) for again in _json(once)]):
        yield from inside
    for safe in ("", "/", _BROWSER):
        for quote in (urllib.parse.quote, urllib.parse.quote_plus):
            quoted = quote(value, safe=safe, errors="surrogateescape")
            yield quoted
            yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    for escaped in (html.escape(value), html.escape(value, quote=False)):
        yield escaped
        yield escaped.replace("&#x27;", "&#39;")
    yield data.hex()
    yield data.hex().upper()
    yield from _base64(data)


def _json(text: str) -> list[str]:
    """Return how a text may stand in a string of JSON."""
    escaped = json.dumps(text)[1:-1]
    upper = re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda m: m[1] + m[2].upper(), escaped)
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return [form for each in (escaped, upper, plain) for form in (each, each.replace("/", "\\/"))]


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
