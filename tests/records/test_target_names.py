"""Targets have names that are safe and distinct on every file system."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.records.targets import AgentTarget, ScopeTarget, SkillTarget, encode_directory

IDS = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_-]{0,9}\Z").filter(
    lambda name: name not in ("skills", "scopes")
)
# Any characters at all: Python makes lone surrogates of names that are not UTF-8, and Windows has them too.
_CHARACTERS = st.characters(exclude_characters="/\0", exclude_categories=[]) | st.sampled_from(
    "\udc80\udcc3\udca9"
)
PARTS = st.text(_CHARACTERS, min_size=1, max_size=8)
LONG = st.text(st.sampled_from("aäÄ日"), min_size=150, max_size=300)
DIRECTORIES = st.one_of(st.just(""), st.lists(PARTS, min_size=1, max_size=4).map("/".join), LONG)
AGENT_TARGETS = st.builds(
    AgentTarget,
    IDS,
    st.sampled_from(["root", "sub"]),
    DIRECTORIES,
    st.sampled_from(["full", "minimal", "none"]),
    st.sampled_from(["posix", "windows"]),
    st.sampled_from(["full", "workspace", "readonly"]),
)
TARGETS = st.one_of(
    AGENT_TARGETS, st.builds(SkillTarget, IDS), st.builds(ScopeTarget, DIRECTORIES.filter(bool))
)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (AgentTarget("a"), "a/root"),
        (AgentTarget("a", "sub"), "a/sub"),
        (AgentTarget("a", "sub", "pkg/Web ui"), "a/sub@pkg%2f%57eb%20ui"),
        (
            AgentTarget("a", "root", "x", "minimal", "windows", "readonly"),
            "a/root@x+minimal+windows+readonly",
        ),
        (AgentTarget("a", "root", mode="none", access="workspace"), "a/root+none+workspace"),
        (SkillTarget("s"), "skills/s"),
        (ScopeTarget("docs/é"), "scopes/docs%2f%c3%a9"),
    ],
)
def test_names_leave_defaults_out(target, name):
    assert target.name == name


@given(TARGETS)
def test_a_name_is_one_safe_file_name_in_one_folder(target):
    """No character that any file system forbids, no trailing dot or space, at most 255 bytes with room to spare."""
    folder, _, name = target.name.partition("/")
    assert re.fullmatch(r"[A-Za-z0-9_-]+", folder)
    assert re.fullmatch(r"[A-Za-z0-9_.%~@+-]+", name)
    assert name not in (".", "..")
    assert len(f".{name}.json.tmp".encode()) <= 230


@given(DIRECTORIES, DIRECTORIES)
def test_directories_stay_distinct_even_where_names_ignore_case(one, other):
    assert (encode_directory(one).casefold() == encode_directory(other).casefold()) == (one == other)


@given(st.text("aA/.%@+~ ", min_size=1, max_size=4), st.text("aA/.%@+~ ", min_size=1, max_size=4))
def test_nor_do_look_alikes_meet(one, other):
    """What the encoding itself is made of is encoded."""
    assert (encode_directory(one) == encode_directory(other)) == (one == other)


def test_half_a_character_is_not_taken_for_a_whole_one():
    assert encode_directory("\udcc3\udca9") != encode_directory("é")


@given(LONG, st.sampled_from("aäÄ日"))
def test_long_ones_are_told_apart_by_their_end(directory, more):
    encoded = encode_directory(directory)
    assert len(encoded) <= 177
    assert encoded != encode_directory(directory + more)


@given(TARGETS, TARGETS)
def test_different_targets_have_different_names(one, other):
    assert (one.name == other.name) == (one == other)


@given(IDS, AGENT_TARGETS)
def test_variants_of_one_agent_do_not_meet(name, target):
    """Whatever a directory is called, it does not pass for a mode, a platform or a role."""
    plain = {AgentTarget(name, role).name for role in ("root", "sub")}
    moved = AgentTarget(name, target.role, "root+none@sub+windows")
    assert moved.name not in plain
    assert moved.name.count("+") == 0
