"""What a provider answers is shown without the key that it was asked with."""

import pytest

from halo.models.failures import Call


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("k", "un[key]nown: [key] and '[key]'"),
        ("sk-1", "unknown: [key] and '[key]'"),
        (" a\\b\n", "unknown: [key] and '[key]'"),
    ],
)
def test_each_spelling_is_replaced_once(key, shown):
    assert Call("p", "e", "m", key).redact(f"unknown: {key} and {key!r}") == shown


def test_without_a_key_nothing_is_replaced():
    assert Call("p", "e", "m").redact("unknown:  a\nb") == "unknown: a b"
