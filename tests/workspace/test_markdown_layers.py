"""Markdown layers: front matter, body and line, whatever the editor wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import tree

from halo.errors import LayerError
from halo.workspace.layers import read_layer, split_front_matter

PATH = "workspace:x.md"


def layer(text):
    return read_layer(tree({"x.md": text}), PATH, "workspace")


@pytest.mark.parametrize("mark", ["", "\ufeff", "\ufeff\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_front_matter_body_and_line(mark, newline):
    """The same layer from every platform, with or without a byte order mark."""
    found = layer(mark + newline.join(["---", "name: x", "---", "", "  First", "", "last  ", "", ""]))
    assert (found.front.value, found.body, found.line) == ({"name": "x"}, "First\n\nlast", 5)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("---\nname: x\n---\n", ""),
        ("---\nname: x\n---", ""),
        ("---\n---\nbody", "body"),
        ("---\n\n---\nbody", "body"),
        ("---\n# remark\n---\nbody", "body"),
        ("---\nname: x\n---\n---\nmore\n---\n", "---\nmore\n---"),
    ],
)
def test_front_matter_ends_at_the_first_rule(text, body):
    found = layer(text)
    assert found.front is not None
    assert found.body == body


@pytest.mark.parametrize(
    "text",
    [
        "---\nSome words.\n---\nMore.",
        "---\n# A heading\ntext\n\n---\nMore.",
        "---\n- a list\n- of two\n---\nMore.",
        "---\n*Mind* this: it is: prose.\n---\nMore.",
        "---\nA rule: then: prose.\n# And a remark\n- [x\n---\nMore.",
        "---\nname: x\nnever closed",
        "---",
        "----\nname: x\n----\n",
        " ---\nname: x\n---\n",
        "\n---\nname: x\n---\n",
        "text\n---\nname: x\n---\n",
    ],
)
def test_two_rules_around_something_else_are_text(text):
    found = layer(text)
    assert found.front is None
    assert found.body == text.strip()


@pytest.mark.parametrize(
    ("text", "line"), [("---\nname: x\ndescription: a: b\n---\nbody", 3), ("---\nname: x\nname: y\n---\n", 3)]
)
def test_broken_front_matter_is_an_error_at_its_line(text, line):
    with pytest.raises(LayerError) as caught:
        layer(text)
    assert (caught.value.file, caught.value.line) == (PATH, line)


@pytest.mark.parametrize("text", ["", "\n\n", " \t\n", "\ufeff", "\u00a0\n\u2003"])
def test_a_blank_file_is_no_layer(text):
    assert layer(text) is None


def test_an_absent_file_is_no_layer():
    assert read_layer(tree({"y.md": "x"}), PATH, "workspace") is None


@pytest.mark.parametrize("data", [b"\xff\xfe", b"ok\n\x80", b"a\0b"])
def test_what_is_not_text_is_an_error(data):
    source = tree({"x.md": data})
    with pytest.raises(LayerError) as caught:
        read_layer(source, PATH, "workspace")
    assert caught.value.file == PATH


LINES = st.lists(st.sampled_from(["", " ", "x", "  y ", "---", "- é", "# h", "\u00a0"]), max_size=8)


@given(LINES, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_the_line_is_where_the_body_starts(lines, fronted, newline):
    """The body's first line is the file's line `line`, however many blank lines come before it."""
    text = newline.join([*(["---", "k: v", "---"] if fronted else []), *lines])
    found = layer(text)
    if found is None or not found.body:
        assert not "".join(lines).strip() or not fronted
        return
    source = text.replace("\r\n", "\n").split("\n")
    body = found.body.split("\n")
    assert source[found.line - 1].strip() == body[0].strip()
    assert [line.rstrip() for line in source[found.line : found.line + len(body) - 1]] == [
        line.rstrip() for line in body[1:]
    ]
    assert found.body == found.body.strip()


@given(st.text(max_size=60))
def test_splitting_loses_nothing(text):
    """Front matter and body are the text, cut at a line."""
    try:
        front, body, line = split_front_matter(text, "x")
    except LayerError:
        return
    assert text.endswith(body)
    assert text[: len(text) - len(body)].count("\n") == line - 1
    assert front is not None or (body, line) == (text, 1)
