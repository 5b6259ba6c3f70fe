"""What a reader does not see: named, blanked out of headings and lists, spelt out for a terminal."""

import pytest

from halo.files.visible import visible
from halo.workspace.hidden import find_hidden
from halo.workspace.layers import one_line


class TestOneLine:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            (" a\n\tb\u2028c \u00a0 d ", "a b c d"),
            ("a\x1b[2Jb\u202ec\u200bd\U000e0041e", "a [2Jb c d e"),
            ("👩\u200d💻 نمی\u200cشود ❤\ufe0f 🏴\U000e0067\U000e0062\U000e007f", None),
        ],
    )
    def test_what_nobody_sees_becomes_a_space(self, text, line):
        """Not the joiners that pictures and scripts need."""
        assert one_line(text) == (text if line is None else line)

    @pytest.mark.parametrize("char", ["\U0001fae9", "\U0002ebf0", "\ue000", "\u0378"])
    def test_a_character_that_this_python_does_not_know_stays(self, char):
        """Its tables are not those of the next version, and an artifact has the same bytes on both."""
        assert one_line(f"new {char} here") == f"new {char} here"


def test_a_terminal_is_shown_what_it_must_not_act_upon():
    assert visible("a\tb é 日本 👩\u200d🚀") == "a\tb é 日本 👩\u200d🚀"
    assert visible("\x1b[2J\u202ex\u200b\n\U000e0041") == "\\x1b[2J\\u202ex\\u200b\\n\\U000e0041"


def test_each_has_its_line_and_name():
    assert [tuple(h) for h in find_hidden("a\nb\u202e\n\x07")] == [
        (2, "U+202E RIGHT-TO-LEFT OVERRIDE"),
        (3, "U+0007 control character"),
    ]
