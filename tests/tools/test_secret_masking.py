"""Secret values in results of tools: however they are written, the model and the log get a name instead."""

import base64
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.secrets import SHORTEST, masker

VALUE = 'hunter2/"correct" (horse)+!it\'s ü'
mask = masker([("post.params.token", VALUE), ("post.secrets.pin", "1234")])


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        urllib.parse.quote(VALUE),
        urllib.parse.quote(VALUE, safe=""),
        urllib.parse.quote_plus(VALUE),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        urllib.parse.quote(VALUE, safe="").lower(),
        urllib.parse.quote(VALUE, safe="!'()*"),
        json.dumps(VALUE)[1:-1].replace("\\u00fc", "\\u00FC"),
        json.dumps(json.dumps(VALUE))[3:-3],
        json.dumps(json.dumps({"a": VALUE}, ensure_ascii=False), ensure_ascii=False).split(": ")[1][2:-4],
        html.escape(VALUE),
        html.escape(VALUE, quote=False),
        html.escape(VALUE).replace("&#x27;", "&#39;"),
    ],
)
def test_a_value_is_replaced_by_its_name_however_it_is_written(written):
    assert mask(f"before {written} after") == "before [secret post.params.token] after"


@pytest.mark.parametrize("before", ["", "u", "us", "use"])
@pytest.mark.parametrize("after", ["", ":", ":p"])
def test_a_value_inside_something_in_base64_is_found(before, after):
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        masked = mask(encode(f"{before}{VALUE}{after}".encode()).decode())
        assert "[secret post.params.token]" in masked
        assert len(masked.replace("[secret post.params.token]", "")) <= 10


def test_short_values_would_hide_words_of_any_text_and_are_left_alone():
    assert mask("pin 1234") == "pin 1234"
    assert SHORTEST == 6


def test_the_longer_of_two_values_that_begin_alike_is_named():
    both = masker([("a", "secret-1"), ("b", "secret-1-and-more")])
    assert both("secret-1-and-more secret-1") == "[secret b] [secret a]"


def test_without_secrets_a_text_is_what_it_was():
    assert masker([])("anything") == "anything"


@given(st.text(min_size=6, max_size=40), st.text(), st.text())
def test_no_value_survives(value, before, after):
    if value in "[secret n]":
        return
    assert value not in masker([("n", value)])(before + value + after).replace("[secret n]", "\0")
