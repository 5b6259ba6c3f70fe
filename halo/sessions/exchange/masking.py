"""Takes secrets out of values of JSON. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

# From a text to the same without secrets (`halo.tools.secrets.masker`).
Mask = Callable[[str], str]


def masked(value: Any, mask: Mask) -> Any:
    """Return a value of JSON with `mask` applied to every text in it, names of fields included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [masked(each, mask) for each in value]
    if isinstance(value, dict):
        return {mask(name): masked(each, mask) for name, each in value.items()}
    return value


def masked_json(data: bytes, mask: Mask) -> bytes:
    """Return JSON with its texts masked; the very same bytes where nothing in it is a secret."""
    value = msgspec.json.decode(data)
    safe = masked(value, mask)
    return data if safe == value else msgspec.json.encode(safe)
