"""`file_write` and `file_edit` as a model meets them."""

import asyncio
import json
import os
import stat

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from halo.records.messages import ToolCall
from halo.records.tools import WORKSPACE_TOOLS
from halo.tools.base import Surroundings
from halo.tools.sandbox.memory import MemoryFiles
from halo.tools.toolbox import Toolbox


class Desk:
    """A workspace in memory, and tools in it."""

    def __init__(self, files):
        self.memory = MemoryFiles(files)
        around = Surroundings(self.memory, {}, lambda _skill, _arguments: None, access="workspace")
        self.toolbox = Toolbox(WORKSPACE_TOOLS, around)

    def call(self, name, /, **arguments):
        return asyncio.run(self.toolbox.run(ToolCall("c1", name, json.dumps(arguments))))

    def edit(self, old, new, **more):
        return self.call("file_edit", path="f", old_string=old, new_string=new, **more)


def edited(data, old, new, **more):
    """Edit a file in memory; return its bytes and what the model is told."""
    desk = Desk({"f": data})
    result = desk.edit(old, new, **more)
    assert not result.is_error, result.text
    return desk.memory.files["f"], result.text


def refused(data, old, new, **more):
    """The same for an edit that is not made."""
    desk = Desk({"f": data})
    result = desk.edit(old, new, **more)
    assert result.is_error
    assert desk.memory.files == {"f": data}
    return result.text


# file_write


def test_a_file_is_made_with_its_folders_and_then_replaced(bench):
    assert (
        bench.text("file_write", path="a/b/c.txt", content="one\ntwo") == "made a/b/c.txt: 2 lines, 7 bytes"
    )
    assert bench.text("file_write", path="a/b/c.txt", content="é\n") == "replaced a/b/c.txt: 1 line, 3 bytes"
    assert (bench.root / "a/b/c.txt").read_bytes() == "é\n".encode()
    assert bench.text("file_write", path="a/b/c.txt", content="") == "replaced a/b/c.txt: 0 lines, 0 bytes"


def test_the_text_is_written_as_it_is(bench):
    """No newline is added, none is changed, none is taken away."""
    for content in ("no end", "a\r\nb\n", "\n\n", "\\n $& \\1 {{x}}", "\ufeffx", "\0"):
        bench.text("file_write", path="f", content=content)
        assert (bench.root / "f").read_bytes() == content.encode()


def test_an_absolute_path_below_the_root_works_for_writing(bench):
    bench.text("file_write", path=f"{bench.root}/d/a.txt", content="x")
    assert (bench.root / "d/a.txt").read_text() == "x"


def test_a_folder_and_a_file_on_the_way_are_answered(bench):
    bench.write({"d/x": "", "f": ""})
    assert bench.refusal("file_write", path="d", content="") == "d is a folder; name a file in it"
    assert bench.refusal("file_write", path=".", content="") == ". is a folder; name a file in it"
    assert "what its path names as a folder is a file" in bench.refusal("file_write", path="f/x", content="")


def test_skills_elsewhere_are_only_read(bench):
    (bench.skill / "a.md").write_text("x\n")
    for answer in (
        bench.refusal("file_write", path="skill:notes/a.md", content="y"),
        bench.refusal("file_edit", path="skill:notes/a.md", old_string="x", new_string="y"),
    ):
        assert "skill:notes/a.md lies outside the workspace" in answer
    assert (bench.skill / "a.md").read_text() == "x\n"


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_a_program_stays_one(bench):
    bench.write({"run.sh": "#!/bin/sh\necho one\n"})
    (bench.root / "run.sh").chmod(0o750)
    bench.text("file_edit", path="run.sh", old_string="one", new_string="two")
    bench.text("file_write", path="run.sh", content="#!/bin/sh\n")
    assert stat.S_IMODE((bench.root / "run.sh").stat().st_mode) == 0o750


def test_a_lone_surrogate_is_answered(bench):
    bench.write({"f": "x"})
    assert "lone surrogate" in bench.refusal("file_write", path="f", content="\ud800")
    assert "lone surrogate" in bench.refusal("file_edit", path="f", old_string="x", new_string="\ud800")
    assert "lone surrogate" in bench.refusal("file_edit", path="f", old_string="\ud800", new_string="x")
    assert (bench.root / "f").read_text() == "x"


# file_edit


def test_one_piece_is_replaced_and_the_line_is_named():
    data, said = edited(b"one\ntwo\nthree\n", "two", "2\nand a half")
    assert data == b"one\n2\nand a half\nthree\n"
    assert said == "edited f: 1 place (line 2)"


def test_an_ambiguous_piece_is_counted_and_left_alone():
    said = refused(b"x = 1\ny\nx = 1\n", "x = 1", "x = 2")
    assert "occurs 2 times in f (lines 1, 3)" in said
    assert "replace_all" in said


def test_pieces_that_overlap_are_ambiguous_too():
    """Which of the two is meant? Both would be a guess."""
    assert "occurs 2 times in f (line 1)" in refused(b"aaa", "aa", "b")


def test_every_piece_is_replaced_if_that_is_asked_for():
    data, said = edited(b"a.a\na\n", "a", "b", replace_all=True)
    assert data == b"b.b\nb\n"
    assert said == "edited f: 3 places (lines 1, 2)"
    data, said = edited(b"a\n" * 5000, "a", "b", replace_all=True)
    assert said == "edited f: 5,000 places (lines 1, 2, 3, 4, 5, 6, 7, 8, ...)"
    assert edited(b"a b", "a", "c", replace_all=True)[1] == "edited f: 1 place (line 1)"


def test_what_is_not_there_is_said_with_what_to_do():
    assert refused(b"one\n", "two", "x") == (
        "old_string does not occur in f; read the file again and copy the text exactly, blanks and all"
    )
    assert "leave out the line numbers" in refused(b"one\ntwo\n", "1\tone\n2\ttwo", "x")


def test_empty_and_equal_texts_are_refused():
    assert "old_string is empty" in refused(b"one", "", "x")
    assert "nothing would change" in refused(b"one", "one", "one")


def test_text_can_be_taken_away():
    assert edited(b"one two", " two", "")[0] == b"one"


@pytest.mark.parametrize(
    "text", ["$&", "$1", r"\1", r"\g<0>", r"\\", "\\", ".*", "(", "[a-z]+", "{{x}}", "%s", "{0}", "^", "&"]
)
def test_texts_are_literal(text):
    assert edited(b"a OLD b", "OLD", text)[0] == f"a {text} b".encode()
    assert edited(f"a {text} b".encode(), text, "NEW")[0] == b"a NEW b"


def test_a_missing_file_is_answered():
    desk = Desk({"f": b"x"})
    assert "does not exist" in desk.call("file_edit", path="g", old_string="x", new_string="y").text
    assert "is a folder" in desk.call("file_edit", path=".", old_string="x", new_string="y").text


def test_what_is_no_text_or_too_large_is_refused(bench):
    bench.write({"b": b"\0\1x"})
    with (bench.root / "large").open("wb") as file:
        file.truncate(17 << 20)
    assert "not a text file" in bench.refusal("file_edit", path="b", old_string="x", new_string="y")
    assert "too large" in bench.refusal("file_edit", path="large", old_string="x", new_string="y")


def test_bytes_that_are_not_utf8_stay_as_they_are():
    assert edited(b"caf\xe9 one\n", "one", "two")[0] == b"caf\xe9 two\n"
    assert "not UTF-8" in refused(b"caf\xe9 one\n", "one", "é")  # in which encoding would it be?


def test_a_byte_order_mark_stays():
    assert edited(b"\xef\xbb\xbfone", "one", "two")[0] == b"\xef\xbb\xbftwo"


# Line ends


def test_a_file_with_carriage_returns_keeps_them():
    """Models write a bare newline; file_read shows them no difference."""
    assert edited(b"one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "1\n1.5\n2\n")[0] == b"1\r\n1.5\r\n2\r\nthree\r\n"
    assert edited(b"one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2")[0] == b"1\r\n2\r\n"
    assert edited(b"one\r\ntwo\r\n", "two", "2\n3")[0] == b"one\r\n2\r\n3\r\n"


def test_a_file_without_them_gets_what_is_given():
    assert edited(b"one\ntwo\n", "two", "2\r\n3")[0] == b"one\n2\r\n3\n"
    assert "does not occur" in refused(b"one\ntwo\n", "one\r\ntwo", "x")


def test_in_a_file_with_both_the_text_as_it_is_comes_first():
    mixed = b"a\r\nb\nc\r\nd\n"
    assert edited(mixed, "b\nc", "b\nx\nc")[0] == b"a\r\nb\nx\nc\r\nd\n"
    assert edited(mixed, "a\nb", "a\nx\nb")[0] == b"a\r\nx\r\nb\nc\r\nd\n"


# Invariants

TEXTS = st.text(st.sampled_from("ab\n$\\é"), max_size=12)
PIECES = st.text(st.sampled_from("ab\n$\\é"), min_size=1, max_size=3)


@given(TEXTS, PIECES, TEXTS, TEXTS)
def test_a_text_that_occurs_once_is_replaced_and_nothing_else_is_touched(before, old, after, new):
    assume(old != new)
    data = (before + old + after).encode()
    desk = Desk({"f": data})
    result = desk.edit(old, new)
    once = sum(data.startswith(old.encode(), at) for at in range(len(data))) == 1
    assert result.is_error is not once
    assert desk.memory.files["f"] == ((before + new + after).encode() if once else data)


@given(TEXTS, PIECES, TEXTS)
def test_replacing_all_is_what_replacing_is(text, old, new):
    assume(old != new)
    desk = Desk({"f": text.encode()})
    result = desk.edit(old, new, replace_all=True)
    assert result.is_error is (old not in text)
    assert desk.memory.files["f"].decode() == text.replace(old, new)


@given(st.lists(st.text(st.sampled_from("abc"), max_size=3), min_size=2, max_size=6), st.data())
def test_no_edit_brings_a_bare_newline_into_a_file_with_carriage_returns(lines, data):
    text = "\r\n".join(lines)
    start = data.draw(st.integers(0, len(lines) - 1))
    old = "\n".join(lines[start : start + 2])
    desk = Desk({"f": text.encode()})
    desk.edit(old, "x\ny")
    assert b"\n" not in desk.memory.files["f"].replace(b"\r\n", b"")


@given(st.text(), st.text(max_size=40))
def test_whatever_is_written_can_be_sent_back(path, content):
    """No path and no text breaks a tool, or brings out what cannot be sent."""
    result = Desk({}).call("file_write", path=path, content=content)
    assert "internal error" not in result.text
    result.text.encode()
