"""The chunker keeps its promises for any text, however it comes in."""

import itertools
import re

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from halo.sessions.delivery.chunker import Chunker, chunks_of
from halo.sessions.delivery.chunks import Chunk, ChunkConfig

ORACLE = MarkdownIt("commonmark").enable("table")
EOL = re.compile(r"\r\n?|\n")

# What texts are made of; none of it by itself is longer than 24 characters.
PIECES = [
    *("alpha", "beta gamma. ", "Delta! ", "x", "\n", "\n\n", "\r\n", "\r\n\r\n", " ", "\t", "    "),
    *("```\n", "```python\n", "````\n", "\n```\n", "~~~\n", "\n~~~\n", "\n   ```js\n", "\n    ```\n"),
    *("`code x`", "``a ` b``", "[a link](http://x.y/z)", "![pic](a.png 't')", "<http://auto.link/x>"),
    *("https://bare.example/pp", "**bold words**", "&amp;", "\\`", "`", "[", "]", "(", ")", "*", "_", "<"),
    *("- ", "\n- item", "\n1. one", "> ", "\n> quote", "\n# Head\n", "---\n"),
    *("👩‍👩‍👧‍👦", "🇳🇴🇸🇪", "e\u0301", "中文。", "| a | b |\n|---|---|\n| 1 | 2 |\n"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
CONFIGS = st.builds(
    ChunkConfig,
    min_chars=st.sampled_from([1, 5, 20, 40]),
    max_chars=st.sampled_from([1, 24, 40, 60, 100, 0]),
    break_preference=st.sampled_from(["paragraph", "newline", "sentence"]),
    by_paragraph=st.booleans(),
    max_lines=st.sampled_from([0, 0, 3, 5, 8]),
)
# A small limit cannot hold every block of code.
ROOMY = CONFIGS.filter(lambda c: c.max_chars in (0, 60, 100))


def fed(text, config, sizes):
    chunker, chunks, at = Chunker(config), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        chunks += chunker.feed(text[at : at + size])
        at += size
    return (*chunks, *chunker.finish())


def joined(chunks):
    return "".join(chunk.source + chunk.separator for chunk in chunks)


def texts(text, **config):
    return [chunk.text for chunk in chunks_of(text, ChunkConfig(**config))]


def unclosed(text):
    """Whether a parser of Markdown finds a block of code that reaches the end without a line that closes it.

    One in a quote or an item may end with that, as the answer itself has it.
    """
    lines = EOL.split(text.rstrip())
    for token in ORACLE.parse(text):
        if token.type == "fence" and token.level == 0 and token.map[1] >= len(lines):
            closed = re.fullmatch(r"[ \t>]*(`{3,}|~{3,})[ \t]*", lines[-1])
            if token.map[0] >= len(lines) - 1 or not closed:
                return True
    return False


class TestPromises:
    """Complaint 1: what came out depended on how it came in."""

    @settings(max_examples=120, deadline=None)
    @given(TEXTS, CONFIGS, st.lists(st.integers(1, 9), min_size=1, max_size=5))
    @example("alpha beta gamma delta epsilon zeta eta theta iota kappa", ChunkConfig(10, 30), [1])
    @example("```python\n" + "print(1)\n" * 12 + "```\n", ChunkConfig(5, 40), [7])
    def test_the_same_text_gives_the_same_chunks_whatever_the_deltas(self, text, config, sizes):
        assert fed(text, config, sizes) == fed(text, config, [1]) == chunks_of(text, config)

    @settings(max_examples=150, deadline=None)
    @given(TEXTS, CONFIGS)
    def test_sources_and_separators_join_to_the_text(self, text, config):
        chunks = chunks_of(text, config)
        assert joined(chunks) == (text if text.strip() else "")
        for chunk in chunks:
            assert chunk.text.strip()
            assert chunk.text.startswith(chunk.opening)
            assert chunk.text.endswith(chunk.closing)

    @settings(max_examples=150, deadline=None)
    @given(TEXTS, CONFIGS)
    def test_no_chunk_exceeds_a_limit(self, text, config):
        """Complaint 2: synthetic lines were not counted."""
        for chunk in chunks_of(text, config):
            assert config.max_chars <= 0 or len(chunk.text) <= config.max_chars
            assert not config.max_lines or len(EOL.split(chunk.text)) <= config.max_lines

    @settings(max_examples=200, deadline=None)
    @given(TEXTS, ROOMY)
    def test_every_chunk_is_balanced_markdown(self, text, config):
        for chunk in chunks_of(text, config):
            assert not unclosed(chunk.text), chunk.text

    @settings(max_examples=150, deadline=None)
    @given(TEXTS, CONFIGS)
    @example("👩‍👩‍👧‍👦" * 9, ChunkConfig(1, 24))
    def test_no_grapheme_is_cut_that_fits_into_a_message(self, text, config):
        """Complaint 11: emoji were cut in two."""
        boundaries = {m.start() for m in regex.finditer(r"\X", text)} | {len(text)}
        sizes = [len(part) for c in chunks_of(text, config) for part in (c.source, c.separator)]
        if config.max_chars != 1:
            assert set(itertools.accumulate(sizes)) <= boundaries

    @settings(max_examples=60, deadline=None)
    @given(st.text("a \n`~", max_size=40), st.integers(1, 12), st.integers(0, 3))
    def test_the_smallest_limits_are_kept_and_everything_comes_through(self, text, limit, lines):
        chunks = chunks_of(text, ChunkConfig(1, limit, max_lines=lines))
        assert joined(chunks) == (text if text.strip() else "")
        assert all(len(chunk.text) <= limit for chunk in chunks)

    def test_a_grapheme_longer_than_the_limit_is_cut_and_does_not_hang(self):
        chunks = chunks_of("👩‍👩‍👧‍👦" * 2, ChunkConfig(1, 3))
        assert joined(chunks) == "👩‍👩‍👧‍👦" * 2
        assert all(0 < len(chunk.text) <= 3 for chunk in chunks)


class TestWholeConstructs:
    WORDS = st.sampled_from(["alpha", "beta", "gamma.", "delta"])
    CONSTRUCTS = st.sampled_from(
        ["[a link](http://x.y/z 'of two')", "![a pic](b.png)", "<http://auto.link/x>", "`some code x`"]
    )

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.one_of(WORDS, WORDS, CONSTRUCTS), min_size=1, max_size=40).map(" ".join))
    def test_what_a_parser_finds_in_the_text_it_finds_in_the_chunks(self, text):
        """Complaint 5: a link was cut in two."""

        def inside(part):
            kinds = ("link_open", "image", "code_inline")
            children = [token.children or [] for token in ORACLE.parse(part)]
            return [(t.type, t.attrs, t.content) for c in children for t in c if t.type in kinds]

        chunks = chunks_of(text, ChunkConfig(20, 48))
        assert [found for chunk in chunks for found in inside(chunk.text)] == inside(text)

    def test_a_construct_at_the_limit_goes_into_the_next_message(self):
        link = "[the whole record](https://example.org/a)"
        assert texts(f"Read this here first: {link} and so on", max_chars=55, min_chars=30) == [
            "Read this here first:",
            f"{link} and so on",
        ]

    def test_one_that_no_message_holds_is_cut(self):
        link = f"[{'long ' * 20}](https://example.org)"
        assert all(len(part) <= 40 for part in texts(link, max_chars=40))

    def test_emphasis_stays_whole(self):
        assert texts("one two **three four five** six", max_chars=20, min_chars=4)[:2] == [
            "one two",
            "**three four five**",
        ]

    def test_rows_of_tables_stay_whole(self):
        rows = ["| name | what it is |", "|---|---|", *(f"| n{i} | some words here |" for i in range(6))]
        parts = texts("\n".join(rows), max_chars=60, min_chars=50)
        assert [line for part in parts for line in part.split("\n")] == rows
        assert parts[0].startswith("\n".join(rows[:3]))

    def test_a_number_at_the_start_of_a_sentence_does_not_become_a_list(self):
        parts = texts("We counted them all. 7. of May it was, we say.", max_chars=30, min_chars=5)
        assert not any(re.match(r"\d+\.\s|[-+*] ", part) for part in parts)


class TestBreaks:
    def test_paragraph_before_line_before_sentence_before_word(self):
        assert texts("One two.\n\nThree four. Five", max_chars=22, min_chars=5)[0] == "One two."
        assert texts("One two\nThree four. Five", max_chars=22, min_chars=5)[0] == "One two"
        assert texts("One two. Three four five six", max_chars=22, min_chars=5)[0] == "One two."
        assert texts("One two three four five six", max_chars=22, min_chars=5)[0] == "One two three four"
        assert texts("Onetwothreefourfivesixseven", max_chars=22, min_chars=5)[0] == "Onetwothreefourfivesix"

    def test_the_preference_is_where_the_search_begins(self):
        text = "One.\n\nTwo three.\nFour five. Six seven eight"
        assert texts(text, max_chars=30, min_chars=3)[0] == "One."
        assert texts(text, max_chars=30, min_chars=3, break_preference="newline")[0] == "One.\n\nTwo three."
        assert texts(text, max_chars=30, min_chars=3, break_preference="sentence")[0].endswith("Four five.")

    def test_a_break_before_the_least_length_is_second_choice(self):
        text = "Short.\n\nA sentence that goes on. And more of it here"
        assert texts(text, max_chars=40, min_chars=20)[0] == "Short.\n\nA sentence that goes on."

    def test_scripts_without_spaces_have_sentences_too(self):
        assert texts("我们今天去海边。天气很好。", max_chars=10, min_chars=3)[0] == "我们今天去海边。"

    def test_paragraphs_end_with_any_line_endings(self):
        text = "One two.\r\n\r\nThree four. Five"
        assert [(c.text, c.separator) for c in chunks_of(text, ChunkConfig(5, 22))] == [
            ("One two.", "\r\n\r\n"),
            ("Three four. Five", ""),
        ]

    def test_an_answer_below_the_limit_is_one_message(self):
        """Complaint 10: paragraphs of a short answer were split."""
        text = "First. " * 60 + "\n\n" + "Second. " * 60
        assert texts(text) == [text.rstrip()]
        assert len(fed(text, ChunkConfig(), [3])) == 1

    def test_an_answer_of_just_the_limit_is_one_message(self):
        """Complaint 6."""
        (chunk,) = chunks_of("abcdefghij\n\n", ChunkConfig(1, 10))
        assert chunk == Chunk("abcdefghij", "abcdefghij", "\n\n")

    def test_no_limit_means_no_cut(self):
        text = "word " * 5_000
        assert texts(text, max_chars=0) == [text.rstrip()]
        assert texts(text, max_chars=-1) == [text.rstrip()]

    def test_a_chunk_comes_as_soon_as_nothing_can_change_it(self):
        chunker = Chunker(ChunkConfig(5, 20))
        assert chunker.feed("One two three.\n\nFour five six seven") == ()
        assert chunker.feed(".\n\n") == ()
        assert [c.text for c in chunker.feed("E")] == ["One two three.", "Four five six seven."]

    def test_lines_are_capped(self):
        text = "\n".join(f"line {i}" for i in range(40))
        assert [part.count("\n") + 1 for part in texts(text, max_lines=17)] == [17, 17, 6]

    def test_blank_text_gives_nothing(self):
        assert texts("  \n\n ") == []


class TestParagraphs:
    def test_every_paragraph_is_a_message(self):
        """Complaint 9, the chunker's side."""
        text = "One.\n\nTwo.\n \nThree\nlines.\n\n\n"
        chunks = chunks_of(text, ChunkConfig(1, 4000, by_paragraph=True))
        assert [c.text for c in chunks] == ["One.", "Two.", "Three\nlines."]

    def test_not_within_code(self):
        text = "```\na\n\nb\n```\n\nAfter."
        assert texts(text, min_chars=1, by_paragraph=True) == ["```\na\n\nb\n```", "After."]

    def test_short_paragraphs_wait_for_the_least_length(self):
        text = "One.\n\nTwo two two.\n\nThree."
        assert texts(text, min_chars=10, max_chars=40, by_paragraph=True) == [
            "One.\n\nTwo two two.",
            "Three.",
        ]

    def test_a_paragraph_is_out_when_the_next_one_begins(self):
        chunker = Chunker(ChunkConfig(1, 4000, by_paragraph=True))
        assert chunker.feed("One.\n\n") == ()
        assert [c.text for c in chunker.feed("T")] == ["One."]


class TestCode:
    CODE = "```python\n" + "".join(f"print({i})\n" for i in range(9)) + "```"

    def test_what_does_not_fit_is_closed_and_opened_again(self):
        chunks = chunks_of(self.CODE, ChunkConfig(1, 50))
        assert [c.text for c in chunks] == [
            "```python\nprint(0)\nprint(1)\nprint(2)\nprint(3)\n```",
            "```python\nprint(4)\nprint(5)\nprint(6)\nprint(7)\n```",
            "```python\nprint(8)\n```",
        ]
        assert [(c.opening, c.closing) for c in chunks] == [
            ("", "\n```"),
            ("```python\n", "\n```"),
            ("```python\n", ""),
        ]

    def test_what_fits_is_not_torn(self):
        assert texts(f"Look at this:\n{self.CODE}", max_chars=100, min_chars=60) == [
            "Look at this:",
            self.CODE,
        ]

    @pytest.mark.parametrize("reply", [CODE, "Text before.\n\n" + CODE])
    def test_a_long_language_is_left_out_where_code_would_have_no_room(self, reply):
        """Complaint 2."""
        long = reply.replace("python", "averyveryverylonglanguagename")
        chunks = chunks_of(long, ChunkConfig(1, 40))
        assert joined(chunks) == long
        assert all(len(c.text) <= 40 for c in chunks)
        assert "".join(re.findall(r"print\(\d\)", "".join(c.text for c in chunks))) == "".join(
            f"print({i})" for i in range(9)
        )

    @pytest.mark.parametrize("limit", range(17, 120))
    def test_no_block_is_empty(self, limit):
        """Complaint 2: an extra block of code without code."""
        for text in texts(self.CODE, max_chars=limit, min_chars=1):
            assert re.search(r"print\(\d\)", text), text

    def test_a_closing_line_that_is_already_there_is_not_sent_alone(self):
        text = "```\n" + "a" * 12 + "\n`````\nafter"
        chunks = chunks_of(text, ChunkConfig(1, 20))
        assert [c.text for c in chunks] == ["```\n" + "a" * 12 + "\n```", "after"]
        assert chunks[0].separator == "\n`````\n"

    def test_a_long_marker_is_not_cut(self):
        marker = "~" * 12
        parts = texts(f"{marker}\n" + "code line\n" * 8 + marker, max_chars=60, min_chars=1)
        assert all(part.startswith(marker) and part.endswith(marker) for part in parts)

    def test_a_long_line_of_code_is_cut_anywhere_and_keeps_its_spaces(self):
        chunks = chunks_of("```\n" + "a b " * 20 + "\n```", ChunkConfig(1, 40))
        assert "".join(c.source for c in chunks).count("a b ") == 20
        assert all(not unclosed(c.text) for c in chunks)

    def test_code_in_an_item_goes_on_in_an_item(self):
        parts = texts(
            "10. Run:\n\n    ```sh\n" + "    make all\n" * 9 + "    ```\n11. Done", max_chars=60, min_chars=1
        )
        assert parts[1].startswith("10. ```sh\n    make all")
        assert parts[1].endswith("\n    ```")
        for part in parts:
            assert [t.info for t in ORACLE.parse(part) if t.type == "fence"] in ([], ["sh"])

    def test_code_in_a_quote_goes_on_in_a_quote(self):
        parts = texts("> ```\n" + "> some code\n" * 8 + "> ```", max_chars=50, min_chars=1)
        assert all(part.startswith("> ```\n> some") and part.endswith("\n> ```") for part in parts)

    def test_a_block_that_breaks_off_is_closed(self):
        assert texts("Look:\n```js\nlet a") == ["Look:\n```js\nlet a\n```"]

    def test_a_block_that_breaks_off_before_its_code_is_left_out(self):
        (chunk,) = chunks_of("Look:\n```js\n", ChunkConfig())
        assert (chunk.text, chunk.separator) == ("Look:", "\n```js\n")

    def test_tags_in_code_stay_code_in_every_chunk(self):
        """Complaint 4: after a split, tags in code were read as hidden thoughts."""
        text = "```xml\n" + "<think>not a thought</think>\n" * 6 + "```"
        parts = texts(text, max_chars=80, min_chars=1)
        assert "".join(parts).count("<think>not a thought</think>") == 6
        assert all(part.startswith("```xml\n") and part.endswith("\n```") for part in parts)


def test_a_parallel_text_of_many_messages_is_cut_in_time():
    """A hostile text of marks costs no more than a plain one of the same length, some constant aside."""
    for unit in ("[", "`a", "](", "*a", "<a", "| - ", "\n> ", "```\n", '](x "'):
        text = unit * (40_000 // len(unit))
        assert joined(chunks_of(text, ChunkConfig(100, 4000))) == text
