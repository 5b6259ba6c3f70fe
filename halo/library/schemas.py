"""What a program gives as a schema of a reply: a JSON Schema or a type, checked before anything is sent.

`fastjsonschema` checks replies, but stumbles over a schema that is none, or takes it as it is. So what is
wrong, and where, is said here.
"""

import json
import re
from typing import Any
from urllib.parse import unquote

import msgspec

from halo.errors import UsageError

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

# Keywords, by what stands at them.
_ONE = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
        *("propertyNames", "then"),
    }
)
_NAMED = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NUMBERS = frozenset({"maximum", "minimum", "multipleOf"})
_COUNTS = frozenset(
    {"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"},
)
_TEXTS = frozenset({"$id", "$schema", "description", "format", "title"})


class _FaultError(Exception):
    """Where a schema is wrong, as the keys that lead there, and what is."""

    def __init__(self, path: tuple[str, ...], what: str) -> None:
        super().__init__(what)
        self.path = path


def checked(schema: dict[Any, Any]) -> dict[str, Any]:
    """Return a copy of a JSON Schema. Raises UsageError that says what is wrong with it, and where."""
    try:
        copy: dict[str, Any] = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            "this is no JSON Schema: it holds something that JSON does not have, or itself",
            hint="a schema is made of dicts, lists, strings, numbers, True, False and None",
        ) from error
    try:
        _check(copy, (), copy)
    except _FaultError as fault:
        where = f" at {'.'.join(fault.path)}" if fault.path else ""
        raise UsageError(f"this is no JSON Schema{where}: {fault}") from None
    return copy


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the schema of a type, with an object at its top, as providers want it. Raises UsageError."""
    try:
        (whole,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except (TypeError, RecursionError) as error:
        raise UsageError(
            f"{_named(kind)} says nothing of what a reply is to be",
            hint="give a JSON Schema as a dict, or a type that msgspec can describe: a struct, a dataclass",
        ) from error
    reference = whole.get("$ref", "")
    name = reference.rpartition("/")[2]
    if not name:
        top = dict(whole)
    elif _refers_to(definitions, reference):
        raise UsageError(f"{name} holds itself", hint="wrap it in a type of its own")
    else:
        top = dict(definitions.pop(name))
    if top.get("type") != "object":
        raise UsageError(
            f"a reply is an object, and {_named(kind)} is none", hint="wrap it in a struct or a dataclass"
        )
    top.setdefault("additionalProperties", False)
    if definitions:
        top["$defs"] = definitions
    return top


def _named(kind: Any) -> str:
    return _brief(kind.__name__ if isinstance(kind, type) else repr(kind))


def _refers_to(value: Any, reference: str) -> bool:
    if isinstance(value, dict):
        return value.get("$ref") == reference or any(_refers_to(v, reference) for v in value.values())
    return isinstance(value, list) and any(_refers_to(v, reference) for v in value)


def _check(schema: Any, path: tuple[str, ...], whole: Any) -> None:
    """Look at a schema and all that it holds; raise for the first fault."""
    if isinstance(schema, bool) and path:
        return
    if not isinstance(schema, dict):
        raise _FaultError(path, f"{_shown(schema)} is no schema")
    for key, value in schema.items():
        at = (*path, key)
        _check_value(key, value, at, whole)
        if key in _LISTED or (key == "items" and isinstance(value, list)):
            for number, one in enumerate(value):
                _check(one, (*at, str(number)), whole)
        elif key in _NAMED:
            for name, one in value.items():
                _check(one, (*at, name), whole)
        elif key in _ONE:
            _check(value, at, whole)


def _check_value(key: str, value: Any, at: tuple[str, ...], whole: Any) -> None:
    """Look at the value of one keyword, not at the schemas in it."""
    wrong = ""
    if key == "type":
        names = value if isinstance(value, list) else [value]
        unknown = [name for name in names if name not in _TYPES]
        wrong = f"{_shown(unknown[0] if unknown else value)} is none of {', '.join(_TYPES)}"
        wrong = wrong if unknown or not names else ""
    elif key in _LISTED and not (isinstance(value, list) and value):
        wrong = f"{_shown(value)} is no list of schemas"
    elif key in _NAMED and not isinstance(value, dict):
        wrong = f"{_shown(value)} is no dict of schemas by name"
    elif key == "required" and not (isinstance(value, list) and all(isinstance(n, str) for n in value)):
        wrong = f"{_shown(value)} is no list of names"
    elif key == "enum" and not (isinstance(value, list) and value):
        wrong = f"{_shown(value)} is no list of values"
    elif key in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        wrong = f"{_shown(value)} is no number"
    elif key in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        wrong = f"{_shown(value)} is no whole number from 0"
    elif key in _TEXTS and not isinstance(value, str):
        wrong = f"{_shown(value)} is no text"
    elif key == "$ref":
        wrong = "" if _is_there(value, whole) else f"{_shown(value)} is nothing in this schema"
    elif key in ("pattern", "patternProperties"):
        bad = next((p for p in ([value] if key == "pattern" else value) if not _is_pattern(p)), None)
        wrong = "" if bad is None else f"{_shown(bad)} is no regular expression"
    if wrong:
        raise _FaultError(at, wrong)


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (TypeError, re.error, OverflowError, RecursionError):
        return False
    return True


def _is_there(reference: Any, whole: Any) -> bool:
    """Tell whether a `$ref` leads to a part of the schema itself; nothing is fetched from elsewhere.

    Addresses that parts of a schema give themselves (`$id`) are left to whoever compiles it.
    """
    if not isinstance(reference, str) or (":" in reference and "$id" not in whole):
        return False
    if not re.match(r"#(/|\Z)", reference):
        return True
    part = whole
    for escaped in unquote(reference[1:]).split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(part, list) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        elif isinstance(part, dict) and name in part:
            part = part[name]
        else:
            return False
    return isinstance(part, dict | bool)


def _shown(value: Any) -> str:
    return _brief(json.dumps(value, ensure_ascii=False))


def _brief(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"
