"""Front matter that no YAML parser takes, and that which every one takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.files.canonical import canonical_text
from halo.workspace.instructions.front import lenient_front, patterns, read_values, split_lenient
from halo.workspace.yamldoc import load_yaml


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("globs: **/*.{ts,tsx}\n", {"globs": "**/*.{ts,tsx}"}),
        ("globs: *.ts, *.tsx\nalwaysApply: false\n", {"globs": "*.ts, *.tsx", "alwaysApply": False}),
        ("globs:\nalwaysApply: true\n", {"globs": None, "alwaysApply": True}),
        ("alwaysApply: True # always\n", {"alwaysApply": True}),
        ('alwaysApply: "true"\n', {"alwaysApply": "true"}),
        ("alwaysApply: yes\n", {"alwaysApply": "yes"}),
        ("globs: ~\n", {"globs": None}),
        ("description: a: b, c # no\n", {"description": "a: b, c"}),
        ("description: it's#1\n", {"description": "it's#1"}),
        ("applyTo: '**/*.{a,b}' # remark\n", {"applyTo": "**/*.{a,b}"}),
        ("applyTo: 'it''s'\n", {"applyTo": "it's"}),
        ('applyTo: "a\\"b"\n', {"applyTo": 'a"b'}),
        ("applyTo:'**'\n", {"applyTo": "**"}),
        ('"applyTo": [\'*\', "b,c", {x,y}.ts]\n', {"applyTo": ("*", "b,c", "{x,y}.ts")}),
        ("applyTo: [\n  '*',\n  b\n]\nx: 1\n", {"applyTo": ("*", "b"), "x": "1"}),
        ("applyTo: []\n", {"applyTo": ()}),
        ("applyTo: [a, b\n", {"applyTo": ("a", "b")}),
        ("paths:\n  - **/*.ts\n  # no\n  - 'b'\n", {"paths": ("**/*.ts", "b")}),
        ("paths:\n- a\n- b\nc: d\n", {"paths": ("a", "b"), "c": "d"}),
        ("description: >-\n  two\n  lines\n", {"description": "two lines"}),
        ("description: |\n  two\n  lines\n", {"description": "two\nlines"}),
        ("description: two\n  lines\n", {"description": "two lines"}),
        ("a: 1\na: 2\n", {"a": "2"}),
        ("metadata:\n  applyTo: '**'\n", {"metadata": "applyTo: '**'"}),
        ("# remark\n\n- x\n", {}),
    ],
)
def test_values(block, values):
    assert read_values(block) == values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("**/*.{ts,tsx}, docs/**", ("**/*.{ts,tsx}", "docs/**")),
        (("a, b", "c"), ("a", "b", "c")),
        ("{a,{b,c}},d}", ("{a,{b,c}}", "d}")),
        (",, a ,", ("a",)),
        ("", ()),
        (None, ()),
        (True, ()),
    ],
)
def test_patterns(value, expected):
    assert patterns(value) == expected


PLAIN = st.text(alphabet="ab*/.{} -_é", max_size=12)
VALUES = st.one_of(st.booleans(), st.none(), PLAIN, st.lists(PLAIN.filter(str.strip), max_size=3).map(tuple))


@given(st.dictionaries(st.sampled_from(["applyTo", "globs", "alwaysApply", "paths"]), VALUES))
def test_what_is_valid_means_what_yaml_says(values):
    """Quoted texts, truth values, nothing and lists, in the spellings of JSON."""
    block = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    loaded = load_yaml(block, "x").value or {}
    expected = {key: tuple(value) if isinstance(value, list) else value for key, value in loaded.items()}
    assert read_values(block) == expected


@given(st.text(alphabet="ab:-#'\"[]{}|>,*& \n\\") | st.text(), st.text(alphabet="a-\n: "))
def test_nothing_raises_and_no_body_is_lost(block, rest):
    text = canonical_text(f"---\n{block}\n---\n{rest}".encode("utf-8", "replace").replace(b"\0", b""), "x")
    found = split_lenient(text)
    assert text.endswith(found.body)
    assert text.split("\n")[found.line - 1 :] == found.body.split("\n")
    front = lenient_front(text.encode()).decode()
    assert split_lenient(front).values == found.values
