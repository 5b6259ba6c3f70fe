"""Blocks of code and tables in a text, found as CommonMark 4.5 finds them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from halo.sessions.delivery.blocks import lay_out

ORACLE = MarkdownIt("commonmark").enable("table")

# The shapes of the examples in CommonMark 4.5: what opens, what closes, what does neither.
SHAPES = [
    "```\n<\n >\n```\n",
    "~~~\n<\n >\n~~~\n",
    "``\nfoo\n``\n",
    "```\naaa\n~~~\n```\n",
    "~~~\naaa\n```\n~~~\n",
    "````\naaa\n```\n``````\n",
    "~~~~\naaa\n~~~\n~~~~\n",
    "```\n",
    "`````\n\n```\naaa\n",
    "> ```\n> aaa\n\nbbb\n",
    "```\n\n  \n```\n",
    "```\n```\n",
    " ```\n aaa\naaa\n```\n",
    "   ```\n   aaa\n    aaa\n  aaa\n   ```\n",
    "    ```\n    aaa\n    ```\n",
    "```\naaa\n  ```\n",
    "   ```\naaa\n  ```\n",
    "```\naaa\n    ```\n",
    "``` ```\naaa\n",
    "~~~~~~\naaa\n~~~ ~~\n",
    "foo\n```\nbar\n```\nbaz\n",
    "foo\n---\n~~~\nbar\n~~~\n# baz\n",
    "```ruby\ndef foo(x)\n  return 3\nend\n```\n",
    "~~~~    ruby startline=3 $%@#$\ndef foo(x)\nend\n~~~~~~~\n",
    "````;\n````\n",
    "``` aa ```\nfoo\n",
    "~~~ aa ``` ~~~\nfoo\n~~~\n",
    "```\n``` aaa\n```\n",
]
PIECES = [
    *("alpha", "beta. ", "\n", "\n\n", " ", "  ", "   ", "`c`", "``` no `x`\n", "*"),
    *("```\n", "```py\n", "````\n", "\n```\n", "~~~\n", "\n~~~\n", "~~~ x\n", "\n      ```\n"),
    *("- ", "\n- item", "1. ", "\n> q", "# H\n", "---\n"),
]


def found(text):
    return [(text[: f.start].count("\n"), f.info.strip()) for f in lay_out(text).fences]


def expected(text):
    return [(token.map[0], token.info.strip()) for token in ORACLE.parse(text) if token.type == "fence"]


class TestFences:
    @pytest.mark.parametrize("text", SHAPES)
    def test_the_examples_of_commonmark(self, text):
        assert found(text) == expected(text)

    def test_a_line_with_more_on_it_closes_nothing(self):
        """Complaint 3: "``` not a close" closed the block."""
        (fence,) = lay_out("```\ncode\n``` not a close\nmore\n```\nafter").fences
        assert (fence.close, fence.end) == (30, 33)

    def test_backticks_in_the_info_string_make_it_no_fence(self):
        assert lay_out("```a`b\ntext").fences == ()

    @pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
    def test_line_endings_of_every_system(self, ending):
        text = "a\n```py\nx\n```\nb".replace("\n", ending)
        (fence,) = lay_out(text).fences
        assert text[fence.start :].startswith("```py")
        assert text[: fence.end].endswith("```")

    def test_a_block_in_a_quote_ends_with_the_quote(self):
        (fence,) = lay_out("> ```\n> a\n\nb").fences
        assert (fence.is_open, fence.close) == (False, -1)

    def test_a_block_in_an_item_knows_what_is_around_it(self):
        (fence,) = lay_out("1. step\n\n   > ```sh\n   > make\n").fences
        assert fence.opening(info=True) == "1. > ```sh"
        assert fence.closing == "   > ```"

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
    def test_a_parser_of_markdown_finds_the_same(self, text):
        assert found(text) == expected(text)


class TestTables:
    TABLE = "before\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\nafter"

    def test_from_the_head_to_the_last_row(self):
        ((start, dashes, end),) = lay_out(self.TABLE).tables
        assert self.TABLE[start:end].count("\n") == 3
        assert self.TABLE[start:].startswith("| a")
        assert self.TABLE[dashes:].startswith("|---")

    def test_code_holds_no_table(self):
        assert lay_out(f"```\n{self.TABLE}\n```").tables == ()
        assert lay_out("a | b\nc | d").tables == ()
