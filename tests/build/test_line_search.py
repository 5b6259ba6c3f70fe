"""Lines are found by number, by text and by what is nearest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.build.trace.search import Numbers, compile_pattern, matching_lines, near_lines, parse_numbers
from halo.errors import UsageError

TEXT = """\
# Rules

Never force-push
to main. Ask (twice) first.
Never.
"""


def found(wanted, text=TEXT, *, regex=False):
    return list(matching_lines(text, compile_pattern(wanted, regex=regex)))


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        ("never", [3, 5]),
        ("NEVER FORCE", [3]),
        ("never  force-push", [3]),
        ("force-push to main", [3, 4]),
        ("ask (twice)", [4]),
        ("first. never", [4, 5]),
        ("rules never", [1, 2, 3]),
        ("nev.r", []),
        ("# rules", [1]),
    ],
)
def test_text_is_literal_and_any_white_space_parts_its_words(wanted, lines):
    """So a sentence is found where its file wraps it."""
    assert found(wanted) == lines


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [("^never", [3, 5]), (r"never\.$", [5]), ("push.*to", []), ("(?-i:NEVER)", []), ("x*", [])],
)
def test_an_expression_looks_at_lines_and_ignores_case(wanted, lines):
    assert found(wanted, regex=True) == lines


@pytest.mark.parametrize("wanted", ["", "  \n"])
@pytest.mark.parametrize("regex", [False, True])
def test_an_empty_pattern_is_a_mistake(wanted, regex):
    with pytest.raises(UsageError, match="empty"):
        compile_pattern(wanted, regex=regex)


@pytest.mark.parametrize("wanted", ["(", "[z-a]", "a{99999999999999999999}", "(" * 5000])
def test_a_broken_expression_is_a_mistake(wanted):
    with pytest.raises(UsageError, match="not a regular expression"):
        compile_pattern(wanted, regex=True)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ("41", Numbers(41, 41)),
        ("41-45", Numbers(41, 45)),
        ("007", Numbers(7, 7)),
        ("-1", None),
        ("4-", None),
        ("4 5", None),
        ("١٢", None),
        ("9" * 5000, None),
    ],
)
def test_numbers(wanted, numbers):
    assert parse_numbers(wanted) == numbers


@given(st.text(alphabet="ab \n.", max_size=40), st.text(alphabet="ab \n", min_size=1, max_size=5))
def test_matches_touch_exactly_the_lines_that_are_found(text, wanted):
    """As a slow search says it: the lines of every match that is not empty."""
    if not wanted.strip():
        return
    pattern = compile_pattern(wanted, regex=False)
    expected = set()
    for match in re.finditer(pattern, text):
        for position in range(match.start(), match.end()):
            expected.add(1 + text.count("\n", 0, position))
    assert list(matching_lines(text, pattern)) == sorted(expected)


@pytest.mark.parametrize(
    ("wanted", "best"),
    [
        ("nver forcepush", 3),
        ("to man. Ask", 4),
        ("rule", 1),
        ("ruels", 1),
        ("Never force-push to main and so on", None),
    ],
)
def test_the_nearest_lines_hold_something_like_it(wanted, best):
    near = near_lines(TEXT, wanted)
    assert near[:1] == ([best] if best is not None else [])


def test_the_nearest_come_first_and_are_few():
    text = "".join(f"force push {'x' * i}\n" for i in range(9))
    assert near_lines(text, "force pusch") == [1, 2, 3]


def test_a_look_for_near_lines_is_bounded():
    """A pattern of a page, a text of a book: nothing is found, and soon."""
    assert near_lines(TEXT, "x" * 201) == []
    assert near_lines("a b\n" * 500_000 + "needle\n", "needel") == []
