"""What can be said of a call's arguments before the server looks at them.

Its schema is a stranger's: a validator would turn it into code, run its patterns, or follow it for ever. So
only names and kinds of the arguments are compared; the server checks the rest, as the protocol asks of it.
"""

from collections.abc import Mapping
from typing import Any

from halo.tools.base import ToolFailure, brief

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def check_shape(name: str, schema: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return `arguments` if they may be those of the tool `name`; `ToolFailure` says what is wrong."""
    if not isinstance(arguments, dict):
        raise ToolFailure(f"the arguments of {name} must be an object")
    properties = schema["properties"]
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    if missing:
        raise ToolFailure(f"{name} must be given {', '.join(map(brief, missing[:8]))}")
    if schema.get("additionalProperties") is False:
        unknown = [key for key in arguments if key not in properties]
        if unknown and "patternProperties" not in schema:
            raise ToolFailure(f"{name} takes no {brief(unknown[0])}; it takes {_named(properties)}")
    for key, value in arguments.items():
        kinds = _kinds(properties.get(key))
        if kinds and not any(_is(value, kind) for kind in kinds):
            raise ToolFailure(f"{name}: {brief(key)} must be {' or '.join(kinds)}")
    return arguments


def _named(properties: Mapping[str, Any]) -> str:
    return ", ".join(map(brief, list(properties)[:20])) or "nothing"


def _kinds(schema: Any) -> list[str]:
    """Return the kinds that a property may have, none where its schema does not say it plainly."""
    said = schema.get("type") if isinstance(schema, dict) else None
    kinds: list[Any] = said if isinstance(said, list) else [said]
    return kinds if all(isinstance(kind, str) and kind in _KINDS for kind in kinds) else []


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])
