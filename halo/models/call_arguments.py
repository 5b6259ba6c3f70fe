"""Arguments of a tool call, for protocols that take objects and no text. Pure."""

from typing import Any

import msgspec

# Levels of nesting. Deeper ones are nobody's arguments, and no encoder would get to their end.
_DEEPEST = 100


def arguments_object(arguments: str) -> dict[str, Any] | None:
    """Decode arguments; None for what is no JSON object, or nested beyond reason."""
    try:
        value = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value if _is_shallow(value, _DEEPEST) else None


def sent_arguments(arguments: str) -> dict[str, Any]:
    """Decode arguments that go back to a model; what was never an object goes under a name."""
    value = arguments_object(arguments)
    return {"malformed_arguments": arguments} if value is None else value


def _is_shallow(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not items or (levels > 0 and all(_is_shallow(item, levels - 1) for item in items))
