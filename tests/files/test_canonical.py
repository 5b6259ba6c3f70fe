"""One spelling for every text and every JSON value."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import LayerError
from halo.files.canonical import canonical_json, canonical_text, readable_json

TEXT = st.text(alphabet=st.sampled_from(list("ab \t\n\r\v\f\ufeff\u00a0é")), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b" \t\r\n\n", ""),
        (b"a", "a\n"),
        (b"a \n \n\t\n", "a\n"),
        (b"\n\n  a  \nb", "\n\n  a  \nb\n"),
        (b"\xef\xbb\xbfa\r\nb\rc\n", "a\nb\nc\n"),
        ("a\u00a0".encode(), "a\u00a0\n"),
    ],
)
def test_the_end_of_a_text_is_one_newline_and_its_start_stays(data, text):
    assert canonical_text(data, "x.md") == text


@given(TEXT)
def test_canonical_text_is_idempotent(text):
    once = canonical_text(text.encode(), "x.md")
    assert canonical_text(once.encode(), "x.md") == once


@given(TEXT.filter(lambda text: "\r" not in text and "\ufeff" not in text))
def test_line_endings_and_marks_make_no_difference(text):
    canonical = canonical_text(text.encode(), "x.md")
    for spelling in (text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text):
        assert canonical_text(spelling.encode(), "x.md") == canonical


@given(st.binary(max_size=40))
def test_bytes_are_either_a_text_or_a_layer_error_with_a_line(data):
    try:
        data.decode()
        readable = b"\0" not in data
    except UnicodeDecodeError:
        readable = False
    if readable:
        canonical_text(data, "x.md")
        return
    with pytest.raises(LayerError) as caught:
        canonical_text(data, "x.md")
    assert caught.value.file == "x.md"
    assert 1 <= caught.value.line <= data.count(b"\n") + data.count(b"\r") + 1


@pytest.mark.parametrize(
    ("data", "line"),
    [(b"\xff", 1), (b"a\nb\n\xe9t\xe9", 3), (b"a\r\nb\rc\n\x80", 4), (b"a\n\0", 2), (b"\xff\xfea\0", 1)],
)
def test_what_is_not_text_is_refused_with_file_line_and_remedy(data, line):
    with pytest.raises(LayerError) as caught:
        canonical_text(data, "agents/x/AGENT.md")
    assert (caught.value.file, caught.value.line) == ("agents/x/AGENT.md", line)
    assert caught.value.hint


@given(JSON)
def test_json_has_one_spelling_and_keeps_its_value(value):
    encoded = canonical_json(value)
    assert json.loads(encoded) == value
    assert json.loads(readable_json(value)) == value
    assert canonical_json(json.loads(readable_json(value))) == encoded


@given(st.dictionaries(st.text(), JSON, min_size=2, max_size=6))
def test_the_order_of_keys_makes_no_difference(value):
    turned = dict(reversed(value.items()))
    assert canonical_json(turned) == canonical_json(value)
    assert readable_json({"inner": turned}) == readable_json({"inner": value})


def test_json_on_disk_is_readable():
    assert canonical_json({"b": 1, "a": {"d": "é", "c": []}}) == '{"a":{"c":[],"d":"é"},"b":1}'.encode()
    assert readable_json({"b": 1, "a": {"c": 2}}) == b'{\n  "a": {\n    "c": 2\n  },\n  "b": 1\n}\n'
