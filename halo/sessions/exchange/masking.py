"""Takes secrets out of values of JSON. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

# From a text to the same without secrets (`halo.tools.secrets.masker`).
Mask = Callable[[str], str]


def masked(value: Any, mask: Mask) -> Any:
    """Return a value of JSON with `mask` applied to every text in it, names of fields included."""
    return _walked(value, mask)[0]


def masked_json(data: bytes, mask: Mask) -> bytes:
    """Return JSON with its texts masked; the very same bytes where nothing in it is a secret."""
    safe, changed = _walked(msgspec.json.decode(data), mask)
    return msgspec.json.encode(safe) if changed else data


def _walked(value: Any, mask: Mask) -> tuple[Any, bool]:
    """Mask a value; also tell whether that changed it. Without recursion: it may be nested deeply."""
    top: list[Any] = [None]
    todo: list[tuple[Any, Any, int | str]] = [(value, top, 0)]
    changed = False
    while todo:
        each, into, name = todo.pop()
        made = each
        if isinstance(each, str):
            made = mask(each)
            changed |= made != each
        elif isinstance(each, list):
            made = [None] * len(each)
            todo += ((part, made, at) for at, part in enumerate(each))
        elif isinstance(each, dict):
            names = [mask(field) for field in each]
            changed |= names != [*each]
            made = dict.fromkeys(names)
            todo += zip(each.values(), [made] * len(names), names, strict=True)
        into[name] = made
    return top[0], changed
