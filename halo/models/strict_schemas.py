"""Which JSON Schemas OpenAI's strict mode takes. Pure.

Strict mode promises a reply that fits the schema, for a part of JSON Schema only: an object at the top, every
property required, no further ones. A schema outside of it is sent all the same, without the promise. Source:
the provider's guide to structured outputs, as of November 2026.
"""

from typing import Any

_KEYWORDS = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum",
        "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems",
        "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
    }
)  # fmt: skip

# Beyond these the provider refuses a strict schema: levels of objects, properties, values of enumerations.
_LEVELS = 10
_PROPERTIES = 5000
_VALUES = 1000

_DEEPEST = 100  # no schema that somebody wrote goes deeper


class _Tally:
    """What a schema holds altogether."""

    def __init__(self) -> None:
        self.properties = 0
        self.values = 0


def is_strict(schema: dict[str, Any]) -> bool:
    """Say whether strict mode takes `schema` as it is."""
    tally = _Tally()
    if schema.get("type") != "object" or "anyOf" in schema or not _fits(schema, 1, 1, tally):
        return False
    return tally.properties <= _PROPERTIES and tally.values <= _VALUES


def _fits(schema: object, level: int, depth: int, tally: _Tally) -> bool:
    if not isinstance(schema, dict) or not _KEYWORDS.issuperset(schema) or depth > _DEEPEST:
        return False
    properties, required = schema.get("properties", {}), schema.get("required", [])
    values, either = schema.get("enum", []), schema.get("anyOf", [])
    named = [properties, *(schema.get(name, {}) for name in ("$defs", "definitions"))]
    if not all(isinstance(group, dict) for group in named):
        return False
    if not all(isinstance(listed, list) for listed in (required, values, either)):
        return False
    tally.properties += len(properties)
    tally.values += len(values)
    is_object = "properties" in schema or "object" in _types(schema)
    if is_object:
        closed = schema.get("additionalProperties") is False
        if not closed or sorted(map(str, required)) != sorted(properties) or level > _LEVELS:
            return False
    elif not {"type", "anyOf", "$ref", "enum", "const"} & set(schema):
        return False  # anything at all
    parts = [part for group in named for part in group.values()] + either
    parts += [schema["items"]] if "items" in schema else []
    return all(_fits(part, level + is_object, depth + 1, tally) for part in parts)


def _types(schema: dict[str, Any]) -> list[object]:
    named = schema.get("type")
    return named if isinstance(named, list) else [named]
