"""Which schemas strict mode takes."""

import pytest

from halo.models.strict_schemas import is_strict
from halo.records.tools import LISTABLE_TOOLS


def obj(required=None, *, closed=True, **properties):
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    return {**schema, "additionalProperties": False} if closed else schema


def nested(levels):
    schema = obj(x={"type": "string"})
    for _ in range(levels - 1):
        schema = obj(x=schema)
    return schema


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        obj(a=TEXT),
        obj(),
        obj(a={"type": ["string", "null"], "description": "d"}),
        obj(a={"enum": ["x", "y"]}, b={"const": 1}),
        obj(a={"type": "array", "items": obj(b=TEXT), "minItems": 1}),
        obj(a={"anyOf": [TEXT, obj(b=TEXT)]}),
        {**obj(a={"$ref": "#/$defs/n"}), "$defs": {"n": obj(b={"$ref": "#/$defs/n"})}},
        nested(10),
    ],
)
def test_taken(schema):
    assert is_strict(schema)


@pytest.mark.parametrize(
    "schema",
    [
        obj(a=TEXT, closed=False),
        obj(["a"], a=TEXT, b=TEXT),
        {"type": "string"},
        {"anyOf": [obj(a=TEXT)]},
        {**obj(a=TEXT), "anyOf": [obj(a=TEXT)]},
        obj(a={}),
        obj(a={"type": "object"}),
        obj(a={"type": ["object", "null"]}),
        obj(a={"type": "array", "items": obj(b=TEXT, closed=False)}),
        obj(a={"allOf": [TEXT]}),
        obj(a={"type": "string", "default": "x"}),
        {**obj(a=TEXT), "$defs": {"n": obj(b=TEXT, closed=False)}},
        obj(a=True),
        {**obj(), "properties": ["a"]},
        {**obj(a=TEXT), "required": "a"},
        obj(a={"anyOf": TEXT}),
        nested(11),
        obj(**{f"p{n}": TEXT for n in range(5001)}),
        obj(a={"enum": list(range(1001))}),
    ],
)
def test_not_taken(schema):
    assert not is_strict(schema)


def test_a_schema_without_an_end_is_not():
    endless = TEXT
    for _ in range(5000):
        endless = {"type": "array", "items": endless}
    assert not is_strict(obj(a=endless))


def test_tools_with_optional_arguments_are_not():
    assert not any(is_strict(LISTABLE_TOOLS[name].parameters) for name in ("file_read", "grep"))
