"""Slots are filled in memory, and only where the manifest says."""

from hypothesis import given
from hypothesis import strategies as st
from making import body, compiled

from halo.records.artifacts import Artifact
from halo.runner.slots import fill


def artifact(text):
    made = compiled(body(text))
    return Artifact("id", made.prompt, made.manifest)


def test_only_the_ranges_of_slots_are_touched():
    """A placeholder in INSTRUCTIONS.md is text, and stays text."""
    made = compiled(
        body("I am at {{workspace_root}}.", **{".halo/INSTRUCTIONS.md": "Write {{now}} literally."})
    )
    filled = fill(Artifact("id", made.prompt, made.manifest), {"workspace_root": "/w", "now": "NOW"})
    assert "I am at /w." in filled.text
    assert "Write {{now}} literally." in filled.text


def test_a_slot_without_a_value_stays_as_it_is_written():
    filled = fill(artifact("It is {{now}}."), {"workspace_root": "/w"})
    assert "It is {{now}}." in filled.text
    assert filled.unfilled == ("now",)


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_static_prefix_does_not_depend_on_values(one, other):
    """Whatever the values, the text begins with the static prefix, and values are not scanned again."""
    made = artifact("Before. {{now}} after {{workspace_root}}.")
    first = fill(made, {"now": one, "workspace_root": other})
    second = fill(made, {"now": other, "workspace_root": one})
    assert first.static_prefix == second.static_prefix
    assert first.text.startswith(first.static_prefix)
    assert f"{one} after {other}." in first.text
