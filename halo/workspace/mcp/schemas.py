"""What a server may say of its tools: it is a stranger's text, which models and providers are given.

`tool_problem` decides what gets into the lock; `fit_schema` and `fit_text` make of it what a model is told.
"""

import re
from typing import Any

from halo.files.canonical import canonical_json
from halo.workspace.hidden import blanked

LONGEST_DESCRIPTION = 10_000  # characters
_LARGEST_SCHEMA = 48 * 1024  # bytes of canonical JSON
_LARGEST_ANNOTATIONS = 4 * 1024
_DEEPEST = 40
_NAME = re.compile(r"[!-~]{1,128}\Z")

# Keys whose text is for a reader; everything else in a schema has a meaning that a change would break.
_FOR_READERS = frozenset({"description", "title"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Providers refuse these at the top of a schema; the server checks its arguments itself.
_NOT_AT_THE_TOP = frozenset(
    {"$schema", "$id", "$comment", "oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"}
)


def tool_problem(name: str, description: str, schema: Any, annotations: Any) -> str:
    """Say why a tool cannot be offered to a model; empty when it can."""
    if not _NAME.match(name):
        return "its name is not one to 128 printable ASCII characters without spaces"
    if len(description) > LONGEST_DESCRIPTION:
        return f"its description has {len(description):,} characters; {LONGEST_DESCRIPTION:,} are possible"
    if _depth(schema) > _DEEPEST or _depth(annotations) > _DEEPEST:
        return f"its schema is nested more than {_DEEPEST} deep"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "its arguments are no object"
    if len(canonical_json(schema)) > _LARGEST_SCHEMA:
        return f"its schema has more than {_LARGEST_SCHEMA:,} bytes"
    if not isinstance(annotations, dict) or len(canonical_json(annotations)) > _LARGEST_ANNOTATIONS:
        return f"its annotations are no object of at most {_LARGEST_ANNOTATIONS:,} bytes"
    return _schema_problem(schema)


def _depth(value: Any) -> int:
    """Measure how deep a value is nested; iterative, because the depth is the author's."""
    deepest, below = 0, [(value, 1)]
    while below:
        item, depth = below.pop()
        deepest = max(deepest, depth)
        if depth > _DEEPEST:
            break
        inside = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        below.extend((each, depth + 1) for each in inside)
    return deepest


def _schema_problem(schema: dict[str, Any]) -> str:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict) or not all(isinstance(p, dict | bool) for p in properties.values()):
        return "its schema's properties are no map of schemas"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "its schema's required is no list of names"
    below: list[Any] = [schema]
    while below:
        item = below.pop()
        if isinstance(item, list):
            below.extend(item)
        if isinstance(item, str) and _has_hidden(item):
            return "its schema holds characters that nobody sees where they have a meaning"
        if not isinstance(item, dict):
            continue
        for key, value in item.items():
            if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
                return "its schema refers to something outside of it"
            if key == "$id" and isinstance(value, str) and item is not schema:
                return "its schema gives a part of itself an address"
            below.append(key)
            if not (key in _FOR_READERS and isinstance(value, str)):
                below.append(value)
    return ""


def _has_hidden(text: str) -> bool:
    return blanked(text) != text


def fit_text(text: str) -> str:
    """Return a description as a model is told it: hidden and control characters become spaces."""
    return blanked(text).strip()


def fit_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as a provider takes it.

    An object with `properties`, none of which is `true`, without what no provider takes at the top, texts as
    `fit_text` has them.
    """
    fitted: dict[str, Any] = {
        key: _fit(value) for key, value in schema.items() if key not in (*_NOT_AT_THE_TOP, *_FOR_READERS)
    }
    fitted.update({key: fit_text(schema[key]) for key in _FOR_READERS if isinstance(schema.get(key), str)})
    properties = fitted.get("properties", {})
    plain = {name: {} if isinstance(kind, bool) else kind for name, kind in properties.items()}
    return {**fitted, "type": "object", "properties": plain}


def left_out(schema: dict[str, Any]) -> list[str]:
    """Name what `fit_schema` leaves out of a schema and what means something there."""
    return sorted(_NOT_AT_THE_TOP & set(schema) - {"$schema", "$id", "$comment"})


def texts_of(description: str, schema: dict[str, Any]) -> str:
    """Return all text of a tool that is for a reader, a line or more each."""
    found, below = [description], [schema]
    while below:
        item: Any = below.pop()
        if isinstance(item, list):
            below.extend(item)
        elif isinstance(item, dict):
            for key, value in item.items():
                if key in _FOR_READERS and isinstance(value, str):
                    found.append(value)
                else:
                    below.append(value)
    return "\n".join(found)


def _fit(value: Any) -> Any:
    if isinstance(value, list):
        return [_fit(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: fit_text(item) if key in _FOR_READERS and isinstance(item, str) else _fit(item)
        for key, item in value.items()
    }
