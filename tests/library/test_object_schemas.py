"""What `generate_object` is given as a schema: what is wrong is said before anything is sent, in Halo's words."""

import asyncio
import contextlib
import dataclasses
import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import agent as agent_yaml
from playing import Player, says

from halo import Agent, Workspace
from halo.errors import UsageError
from halo.library.objects import Wanted
from halo.library.schemas import checked

LOOP = []
LOOP.append(LOOP)
OBJECT = {"type": "object"}


class Node(msgspec.Struct):
    below: "list[Node]"


class Odd(msgspec.Struct):
    what: asyncio.Lock


@dataclasses.dataclass
class Trip:
    day: dt.date
    to: str = "Oslo"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": "strin"},
            ' at type: "strin" is none of array, boolean, integer, null, number, object, string',
        ),
        ({"type": ["object", 3]}, " at type: 3 is none of array, boolean"),
        ({"type": []}, " at type: [] is none of array"),
        ({"type": "object", "properties": 5}, " at properties: 5 is no dict of schemas by name"),
        (
            {"properties": {"a": {"properties": {"b": {"type": "x"}}}}},
            ' at properties.a.properties.b.type: "x" is',
        ),
        ({"properties": {"a": 5}}, " at properties.a: 5 is no schema"),
        ({"required": "a"}, ' at required: "a" is no list of names'),
        ({"required": [1]}, " at required: [1] is no list of names"),
        ({"enum": 3}, " at enum: 3 is no list of values"),
        ({"anyOf": [OBJECT, 3]}, " at anyOf.1: 3 is no schema"),
        ({"anyOf": []}, " at anyOf: [] is no list of schemas"),
        ({"items": [OBJECT, {"type": "zz"}]}, ' at items.1.type: "zz" is none of'),
        ({"not": 4}, " at not: 4 is no schema"),
        ({"pattern": "("}, ' at pattern: "(" is no regular expression'),
        ({"pattern": 3}, " at pattern: 3 is no regular expression"),
        ({"patternProperties": {"[": {}}}, ' at patternProperties: "[" is no regular expression'),
        ({"minimum": "a"}, ' at minimum: "a" is no number'),
        ({"maxLength": -1}, " at maxLength: -1 is no whole number from 0"),
        ({"format": 3}, " at format: 3 is no text"),
        ({"$ref": "#/nope"}, ' at $ref: "#/nope" is nothing in this schema'),
        (
            {"$ref": "https://x.example/y.json"},
            ' at $ref: "https://x.example/y.json" is nothing in this schema',
        ),
        ({"$ref": 3}, " at $ref: 3 is nothing in this schema"),
        ({"const": object()}, ": it holds something that JSON does not have, or itself"),
        ({"enum": LOOP}, ": it holds something that JSON does not have, or itself"),
        ({"const": float("nan")}, ": it holds something that JSON does not have, or itself"),
        ({"title": 5, "description": "x" * 99}, " at title: 5 is no text"),
        ({"required": "x" * 99}, f' at required: "{"x" * 59}… is no list of names'),
    ],
)
def test_a_broken_schema_says_where_and_what(schema, said):
    with pytest.raises(UsageError) as error:
        Wanted(schema)
    assert error.value.message.startswith(f"this is no JSON Schema{said}")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (3, "3 says nothing of what a reply is to be"),
        ("object", "'object' says nothing of what a reply is to be"),
        ([OBJECT], "[{'type': 'object'}] says nothing of what a reply is to be"),
        (asyncio.Lock, "Lock says nothing of what a reply is to be"),
        (Odd, "Odd says nothing of what a reply is to be"),
        (None, "a reply is an object, and None is none"),
        (int, "a reply is an object, and int is none"),
        (list[int], "a reply is an object, and list[int] is none"),
        (Node, "Node holds itself"),
    ],
)
def test_what_is_neither_a_schema_nor_a_type_of_objects(kind, said):
    with pytest.raises(UsageError) as error:
        Wanted(kind)
    assert error.value.message == said
    assert error.value.hint


@pytest.mark.parametrize(
    "schema",
    [
        {},
        OBJECT,
        {"type": ["object", "null"], "properties": {"a": True, "b": {}}, "required": ("a",)},
        {"$defs": {"a/b": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/a~1b"}}},
        {"properties": {"again": {"$ref": "#"}, "items": {"type": "array", "items": False}}},
        {"$id": "https://x.example/a", "properties": {"n": {"$ref": "https://x.example/a#"}}},
        {"properties": {"type": {"enum": ["a", None, 3]}, "$ref": {"const": {"type": "strin"}}}},
        {"if": OBJECT, "then": {"minProperties": 1}, "x-mine": 5, "exclusiveMinimum": True, "examples": [3]},
    ],
)
def test_a_sound_schema_is_taken_as_it_is(schema):
    wanted = Wanted(schema)
    assert wanted.schema == {**schema, **({"required": ["a"]} if "required" in schema else {})}
    assert wanted.schema is not schema  # nobody changes it later


def test_a_type_becomes_a_schema():
    schema = Wanted(Trip).schema
    assert schema["properties"]["day"] == {"type": "string", "format": "date"}
    assert schema["required"] == ["day"]


KEYWORDS = [
    *("type", "properties", "items", "anyOf", "required", "enum", "$ref", "pattern", "not", "$defs"),
    *("a", "dependencies", "minimum", "maxItems", "additionalProperties", "const", "if", "format", "$id"),
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["object", "array", "#", "#/a", "(", "a"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "$ref", "allOf", "a", "not"]), JSON))
def test_whatever_it_is_it_is_taken_or_refused_in_halos_words(schema):
    with contextlib.suppress(UsageError):
        Wanted(schema)


@given(JSON)
def test_checking_changes_nothing(value):
    before = repr(value)
    with contextlib.suppress(UsageError):
        checked({"properties": {"a": value}})
    assert repr(value) == before


@pytest.mark.parametrize("schema", [{"type": "strin"}, 3])
def test_nothing_is_sent_and_nothing_is_kept(ws, schema):
    ws.write(
        {".halo/agents/default/agent.yaml": agent_yaml(), ".halo/agents/default/AGENT.md": "You answer.\n"}
    )
    player = Player(says("{}"))
    agent = Agent.load(Workspace(ws.root, environ=ws.environ()), adapter=player)
    with pytest.raises(UsageError):
        asyncio.run(agent.generate_object("?", schema))
    assert (player.requests, agent.history, agent.stats.calls) == ([], (), 0)
    assert asyncio.run(agent.generate_object("?", OBJECT)).value == {}
