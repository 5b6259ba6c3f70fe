"""The parts of a chat that need no terminal: Markdown in pieces, completion, history, what is shown."""

import json
import os
import stat
import subprocess

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.cli.chat_complete import Candidate, Entry, Words, candidates, listing
from halo.cli.chat_history import TypedHistory
from halo.cli.chat_screen import Screen
from halo.cli.markdown_stream import MarkdownStream, preview, rendered, safe
from halo.files.roots import ConfinedRoot
from halo.models.adapter import Notice, Retrying, TextDelta
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, UsageReported
from halo.records.messages import Message, Text, Thinking, ToolCall, ToolResult
from halo.records.usage import Usage
from halo.sessions.commands.reports import Row
from halo.sessions.history import Conversation
from halo.sessions.reply import Began
from halo.sessions.typed_files import Shelf

BLOCKS = [
    "A line.\n\n",
    "# Head\n",
    "- one\n- two\n\n",
    "```py\nx = 1\n\ny = 2\n```\n",
    "> q\n",
    "| a |\n|---|\n| 1 |\n\n",
    "a\r\n\r\nb\u2028c\n",
]


def stream(text, sizes):
    """What comes of a text that arrives in pieces of these sizes."""
    made, parts, at = MarkdownStream(), [], 0
    for size in sizes:
        parts.append(made.add(text[at : at + size]))
        at += size
    parts.append(made.add(text[at:]))
    parts.append(made.end())
    return [part for part in parts if part]


class TestMarkdownStream:
    @given(
        blocks=st.lists(st.sampled_from(BLOCKS) | st.text(max_size=20), max_size=8),
        sizes=st.lists(st.integers(1, 30), max_size=30),
    )
    def test_nothing_is_lost_and_nothing_comes_twice(self, blocks, sizes):
        text = "".join(blocks)
        assert "".join(stream(text, sizes)) == text

    def test_a_block_comes_when_the_next_one_begins(self):
        made = MarkdownStream()
        assert made.add("One.\n\n") == ""
        assert made.add("Two.\n") == "One.\n\n"
        assert made.rest == "Two.\n"
        assert made.add("```\ncode\n\nmore\n") == "Two.\n"
        assert made.add("```\n") == ""
        assert made.end() == "```\ncode\n\nmore\n```\n"

    def test_a_long_block_is_not_read_again_at_every_line(self, monkeypatch):
        from halo.cli import markdown_stream

        looks = []
        real = markdown_stream._last_block
        monkeypatch.setattr(markdown_stream, "_last_block", lambda text: looks.append(1) or real(text))
        made = MarkdownStream()
        made.add("```\n")
        for number in range(2_000):
            made.add(f"line {number}\n")
        assert len(looks) < 120

    @given(st.text())
    def test_nothing_of_a_stranger_acts(self, text):
        assert not set(safe(text)) & {"\x1b", "\r", "\x07", "\x08", "\u202e", "\x9b"}

    def test_every_line_is_there(self):
        code = "\n".join(f"print({number})" for number in range(200))
        shown = rendered(
            f"<div>kept</div>\n\n```text\n{code}\n```\n\n[a](https://b.example) {'long ' * 60}\n", 60
        )
        for number in range(200):
            assert f"print({number})" in shown
        assert "<div>kept</div>" in shown
        assert "https://b.example" in shown
        assert "\x1b]8" not in shown
        assert shown.count("long") == 60

    def test_of_a_block_that_grows_the_end_is_shown(self):
        text = "```\n" + "".join(f"line {number}\n" for number in range(100))
        assert preview(text, 40, 5).count("\n") == 5
        assert "line 99" in preview(text, 40, 5)
        assert "line 999" in preview("x\n" * 9_000 + "line 999", 40, 5)
        assert preview("", 40, 5) == ""


FOLDERS = {
    "": [Entry("a b", True), Entry("charts", True), Entry("notes.md", False), Entry('qu"ote', False)],
    "charts": [Entry("harbour.txt", False), Entry("old", True)],
    "a b": [Entry("x.txt", False)],
}
WORDS = Words(
    lambda: [Row("/help", "h"), Row("/stop", "s"), Row("/status", "t"), Row("/tide [ARGUMENTS]", "skill")],
    lambda: ["fast", "openai/gpt-5-mini", "deepseek/deepseek-chat"],
    lambda folder: FOLDERS.get(folder, []),
)


def completed(before):
    return [before[: len(before) - found.length] + found.text for found in candidates(before, WORDS)]


class TestCompletion:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("/st", ["/stop", "/status"]),
            ("/TI", ["/tide"]),
            ("/model gpt", ["/model openai/gpt-5-mini"]),
            ("/new fa", ["/new fast"]),
            ("/think h", ["/think high", "/think inherit"]),
            ("see @", ["see @scope ", "see @file "]),
            ("see @f", ["see @file "]),
            ("see @no", ["see @file notes.md"]),
            ("@file cha", ["@file charts/"]),
            ("@file charts/", ["@file charts/harbour.txt", "@file charts/old/"]),
            ("@scope ", ['@scope "a b/', "@scope charts/"]),
            ('@file "a b/', ['@file "a b/x.txt"']),
            ("mail me@ho", []),
            ("what /st", []),
            ("plain", []),
            ("", []),
        ],
    )
    def test_it_goes_on_with(self, before, after):
        assert completed(before) == after

    def test_it_says_what_a_command_does(self):
        assert list(candidates("/stop", WORDS)) == [Candidate("/stop", 5, "s")]


class TestListing:
    @pytest.fixture
    def entries(self, tmp_path):
        for name in (".halo/sessions", ".git", "kept", "secret", "node_modules"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "build.log").write_text("x")
        (tmp_path / "kept/a.txt").write_text("x")
        (tmp_path / "out").symlink_to("/etc")
        shelf = Shelf(ConfinedRoot(str(tmp_path)), (("secret",),), str)
        return listing(shelf, str(tmp_path))

    def test_it_leaves_out_what_is_halos_or_hidden(self, entries):
        assert [entry.name for entry in entries("")] == ["build.log", "kept"]
        assert entries("kept") == [Entry("a.txt", False)]

    @pytest.mark.parametrize("folder", ["..", "out", "/etc", "nothing", "kept/../.."])
    def test_it_leaves_the_workspace_never(self, entries, folder):
        assert entries(folder) == []

    def test_it_leaves_out_what_git_ignores(self, entries, tmp_path):
        (tmp_path / ".git").rmdir()
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        (tmp_path / ".gitignore").write_text("*.log\n")
        (tmp_path / ":(top)x").write_text("")
        assert [entry.name for entry in entries("")] == [".gitignore", ":(top)x", "kept"]


class TestHistory:
    @pytest.fixture
    def history(self, tmp_path):
        return TypedHistory(str(tmp_path), "/w", lambda text: text.replace("sk-12345", "[secret KEY]"))

    def test_its_user_alone_can_read_it(self, history):
        old = os.umask(0)
        try:
            history.add("one")
        finally:
            os.umask(old)
        assert stat.S_IMODE(os.stat(history.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(history.path)).st_mode) == 0o700

    def test_it_keeps_no_secret_and_nothing_behind_a_space(self, history):
        for text in ("use sk-12345", " not this", "", "two\nlines"):
            history.add(text)
        assert history.load() == ["use [secret KEY]", "two\nlines"]

    def test_it_stays_small_and_survives_a_torn_line(self, history):
        for number in range(2_100):
            history.add(str(number))
        with open(history.path, "a") as file:
            file.write('"torn')
        assert history.load()[-1] == "2099"
        with open(history.path) as file:
            assert len([json.loads(line) for line in file]) == 1_000
        assert stat.S_IMODE(os.stat(history.path).st_mode) == 0o600

    def test_a_link_in_its_place_is_not_followed(self, history, tmp_path):
        (tmp_path / "chat").mkdir()
        (tmp_path / "elsewhere").write_text("")
        os.symlink(tmp_path / "elsewhere", history.path)
        history.add("one")
        assert (tmp_path / "elsewhere").read_text() == ""
        assert history.load() == []


class Shown:
    """A screen of 60 columns, and what it prints."""

    def __init__(self):
        self.screen = Screen(lambda: "own", lambda: 60, lambda: None)

    def show(self, *events, session="own"):
        for event in events:
            self.screen.show(session, event)
        return self.screen.take()


@pytest.fixture
def shown():
    return Shown()


BEGAN = Began(1, "own", 1, "Ada", "a1", "f1")


def says(*blocks):
    return MessageAdded(Message("assistant", blocks))


class TestScreen:
    def test_a_block_is_printed_once(self, shown):
        out = shown.show(BEGAN, TextDelta("One.\n\nTwo"), TextDelta(".\n"))
        assert "One." in out
        assert "Two" not in out
        assert "Two." in shown.screen.preview(30)
        out = shown.show(says(Text("One.\n\nTwo.\n")), TurnEnded("done"))
        assert out.count("Two.") == 1
        assert shown.screen.preview(30) == ""

    def test_a_turn_that_is_broken_off_leaves_nothing_open(self, shown):
        shown.show(BEGAN, TextDelta("Half"))
        shown.screen.over("interrupted")
        out = shown.screen.take()
        assert "Half" in out
        assert "ended: interrupted" in out
        assert not shown.screen.footer.running
        assert shown.show(BEGAN) == ""

    def test_what_another_attempt_says_again_is_void(self, shown):
        shown.show(BEGAN, TextDelta("Half"))
        out = shown.show(Retrying("overloaded", 1.0, 1), TextDelta("Whole."), says(Text("Whole.")))
        assert "overloaded: trying again in 1.0 s; what was said since the last step is void" in out
        assert "Half" not in out

    def test_tools_are_short_lines_and_act_on_nothing(self, shown):
        call = ToolCall("c", "grep", '{"pattern": "\\u001b[2J"}')
        result = ToolResultAdded(ToolResult("c", "\x1b[2Jfound"), "grep", 7)
        out = shown.show(BEGAN, says(call), result, Notice("\x1b]0;x\x07"))
        assert "tool    grep \\x1b[2J (7 ms) done" in out
        assert "\\x1b]0;x\\x07" in out
        assert "\x1b[2J" not in out

    def test_verbose_shows_more_or_less(self, shown):
        events = (says(Thinking("Let me see."), ToolCall("c", "grep", "{}")),)
        result = ToolResultAdded(ToolResult("c", "\n".join(map(str, range(20)))), "grep", 7)
        shown.screen.set_verbose("on")
        out = shown.show(*events, result)
        assert "  | Let me see." in out
        assert "  | 11" in out
        assert "[8 more lines]" in out
        shown.screen.set_verbose("off")
        assert shown.show(*events, result) == ""

    def test_children_are_short_lines(self, shown):
        child = Began(1, "child", 1, "Bob", "a2", "f2")
        tool = ToolResultAdded(ToolResult("c", "x"), "grep", 7)
        out = shown.show(
            child, TextDelta("secret words"), tool, TurnEnded("error", "no\x1bkey"), session="child"
        )
        assert "> Bob begins (child)" in out
        assert "> Bob: tool    grep (7 ms) done" in out
        assert "> Bob: error: no\\x1bkey" in out
        assert "secret words" not in out

    def test_the_footer_counts_all(self, shown):
        used = UsageReported(
            "openai", "m-1", Usage(uncached=600, read=400, output=50), cost=0.25, currency="USD"
        )
        shown.show(BEGAN, used)
        shown.show(Began(1, "child", 1, "Bob", "a", "f"), used, session="child")
        footer = shown.screen.footer.text("own", 2)
        assert footer == (
            "Ada · m-1 · 2,000 tokens in (40% cached), 100 out · 0.5000 USD · own · 2 waiting · Ctrl-C stops"
        )

    @pytest.mark.parametrize("before", ["own", ""])
    def test_a_new_session_begins_the_count(self, shown, before):
        used = UsageReported("openai", "m-1", Usage(uncached=600, output=50), cost=0.25, currency="USD")
        footer = shown.screen.footer
        conversation = Conversation()
        conversation.usage, conversation.cost = Usage(uncached=9), 1.0
        footer.begin("Ada", before, conversation)
        shown.show(BEGAN, used)
        assert "609 tokens in" in footer.text("own", 0)
        shown.show(msgspec.structs.replace(BEGAN, session="next"), session="own")
        assert " 0 tokens in, 0 out · 0.0000 USD · next · Ctrl-C stops" in footer.text("next", 0)
