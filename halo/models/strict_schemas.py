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

# Beyond these the provider refuses a strict schema.
_LEVELS = 10
_PROPERTIES = 5000
_VALUES = 1000


def is_strict(schema: dict[str, Any]) -> bool:
    """Say whether strict mode takes `schema` as it is."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    counted = {"properties": 0, "values": 0}
    fits = _fits(schema, 1, counted)
    return fits and counted["properties"] <= _PROPERTIES and counted["values"] <= _VALUES


def _fits(schema: object, level: int, counted: dict[str, int]) -> bool:
    if not isinstance(schema, dict) or not _KEYWORDS.issuperset(schema):
        return False
    properties = schema.get("properties", {})
    counted["properties"] += len(properties)
    counted["values"] += len(schema.get("enum", ()))
    holds_properties = schema.get("type") == "object" or "object" in _types(schema) or "properties" in schema
    if holds_properties:
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties) or level > _LEVELS:
            return False
    elif not {"type", "anyOf", "$ref", "enum", "const"} & set(schema):
        return False  # anything at all
    return all(_fits(part, level + holds_properties, counted) for part in _parts(schema))


def _types(schema: dict[str, Any]) -> list[object]:
    named = schema.get("type")
    return named if isinstance(named, list) else [named]


def _parts(schema: dict[str, Any]) -> list[object]:
    """Return the schemas inside of one."""
    named = (schema.get(key, {}) for key in ("properties", "$defs", "definitions"))
    parts = [part for group in named for part in group.values()]
    parts += schema.get("anyOf", [])
    return [*parts, schema["items"]] if "items" in schema else parts
