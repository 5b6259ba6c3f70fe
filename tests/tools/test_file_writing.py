"""file_write and file_edit: what they do, what they say, and what they refuse."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.base import Surroundings, ToolFailure
from halo.tools.file_edit import file_edit
from halo.tools.sandbox.memory import MemoryFiles


def edited(data, old, new, **more):
    """Edit a file of these bytes in memory; return its new bytes and what was said."""
    files = MemoryFiles({"f": data})
    arguments = {"path": "f", "old_string": old, "new_string": new, **more}
    said = file_edit(arguments, Surroundings(files, {}, lambda _skill, _arguments: None))
    return files.files["f"], said


# file_write


def test_a_file_is_made_with_its_folders(bench):
    assert bench.text("file_write", path="a/b/c.txt", content="one\ntwo\n") == (
        "made a/b/c.txt: 2 lines, 8 bytes"
    )
    assert (bench.root / "a/b/c.txt").read_bytes() == b"one\ntwo\n"


def test_a_file_is_replaced_whole(bench):
    bench.write({"a.txt": "a long old text\n"})
    assert bench.text("file_write", path="./a.txt", content="é") == "replaced a.txt: 1 line, 2 bytes"
    assert (bench.root / "a.txt").read_bytes() == "é".encode()
    assert bench.text("file_write", path="a.txt", content="") == "replaced a.txt: 0 lines, 0 bytes"


def test_text_is_written_as_it_is(bench):
    text = "a\r\nb\rc\n\ufeffd\u2028e\x00f\n"
    bench.text("file_write", path="a.txt", content=text)
    assert (bench.root / "a.txt").read_bytes() == text.encode()


def test_an_absolute_path_below_the_root_can_be_written(bench):
    bench.text("file_write", path=f"{bench.root}/a.txt", content="x")
    assert (bench.root / "a.txt").read_text() == "x"


def test_what_is_no_text_is_refused(bench):
    assert "lone surrogate" in bench.refusal("file_write", path="a.txt", content="\ud800")
    assert os.listdir(bench.root) == []


def test_a_folder_or_what_lies_below_a_file_is_said(bench):
    bench.write({"d/f.txt": "x"})
    assert bench.refusal("file_write", path="d", content="") == "d is a folder; name a file in it"
    assert bench.refusal("file_write", path=".", content="") == ". is a folder; name a file in it"
    assert "as a folder is a file" in bench.refusal("file_write", path="d/f.txt/g", content="")
    assert "too long for a name" in bench.refusal("file_write", path="x" * 300, content="")


@pytest.mark.parametrize("path", ["skill:notes/SKILL.md", "skill:notes/new"])
def test_the_folder_of_a_skill_elsewhere_is_not_written(bench, path):
    assert "outside the workspace" in bench.refusal("file_write", path=path, content="x")
    assert os.listdir(bench.skill) == []


@pytest.mark.parametrize("name", ["file_write", "file_edit"])
def test_readonly_writes_nothing(bench, name):
    """The toolbox refuses the call, and the tool would refuse it again."""
    from halo.tools.toolbox import IMPLEMENTED

    bench.write({"a.txt": "x"})
    bench.restrict("readonly")
    arguments = {"path": "a.txt", "content": "y", "old_string": "x", "new_string": "y"}
    wanted = {k: arguments[k] for k in (("path", "content") if name == "file_write" else arguments)}
    wanted.pop("content" if name == "file_edit" else "", None)
    assert bench.refusal(name, **wanted) == f"{name} needs workspace access; this is readonly"
    with pytest.raises(ToolFailure, match="may only read"):
        IMPLEMENTED[name](wanted, bench.around)
    assert (bench.root / "a.txt").read_text() == "x"


# file_edit


def test_one_place_is_replaced(bench):
    bench.write({"a.py": "one\ntwo\nthree\n"})
    assert bench.text("file_edit", path="a.py", old_string="two\n", new_string="2\n") == (
        "edited a.py: 1 place (line 2)"
    )
    assert (bench.root / "a.py").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    "new", ["$&", "$1", "$$", "$`", "\\1", "\\g<0>", "\\n", "{0}", "%s", "$'", "\\\\", "a\\"]
)
def test_nothing_in_the_texts_has_a_meaning(new):
    assert edited(b"x [a-z]+ y", "[a-z]+", new)[0] == f"x {new} y".encode()
    assert edited(f"x {new} y".encode(), new, ".*")[0] == b"x .* y"


def test_a_text_that_occurs_often_is_said_with_its_lines(bench):
    bench.write({"a.txt": "x\ny\nx\nx x\n"})
    refusal = bench.refusal("file_edit", path="a.txt", old_string="x", new_string="z")
    assert refusal == (
        "old_string occurs 4 times in a.txt (lines 1, 3, 4); give more of the text around it, or set replace_all"
    )
    assert (bench.root / "a.txt").read_text() == "x\ny\nx\nx x\n"
    said = bench.text("file_edit", path="a.txt", old_string="x", new_string="xx", replace_all=True)
    assert said == "edited a.txt: 4 places (lines 1, 3, 4)"
    assert (bench.root / "a.txt").read_text() == "xx\ny\nxx\nxx xx\n"


def test_of_many_places_the_first_are_named():
    _, said = edited(b"x\n" * 5000, "x", "y", replace_all=True)
    assert said == "edited f: 5,000 places (lines 1, 2, 3, 4, 5, 6, 7, 8, ...)"


def test_places_that_overlap_are_two():
    """Which of them is meant cannot be known."""
    with pytest.raises(ToolFailure, match="occurs 2 times"):
        edited(b"aba aba aba", "aba aba", "x")
    assert edited(b"aba aba aba", "aba aba", "x", replace_all=True)[0] == b"x aba"


def test_a_text_that_does_not_occur_is_said(bench):
    bench.write({"a.txt": "\tone\n"})
    assert "does not occur in a.txt; read the file again" in bench.refusal(
        "file_edit", path="a.txt", old_string="    one", new_string="x"
    )
    assert "leave out the line numbers" in bench.refusal(
        "file_edit", path="a.txt", old_string="1\t\tone", new_string="x"
    )


def test_texts_that_change_nothing_are_refused(bench):
    bench.write({"a.txt": "one\n", "crlf.txt": "one\r\ntwo\r\n"})
    assert "the same" in bench.refusal("file_edit", path="a.txt", old_string="one", new_string="one")
    assert "the same" in bench.refusal("file_edit", path="crlf.txt", old_string="e\nt", new_string="e\r\nt")
    assert "empty" in bench.refusal("file_edit", path="a.txt", old_string="", new_string="one")


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\n", "a\nb", "x\r\ny", b"x\r\ny\n"),  # what a file of LF is given, it gets
        (b"a\r\nb\r\nc\nd\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\nd\n"),  # mixed
        (b"a\r\nb\r\nc\nd\n", "c\nd", "c\nx\nd", b"a\r\nb\r\nc\nx\nd\n"),
        (b"a\rb\r", "a", "x\ny", b"x\ny\rb\r"),
    ],
)
def test_line_ends_stay_those_of_the_file(data, old, new, expected):
    assert edited(data, old, new)[0] == expected


def test_what_else_is_in_a_file_stays_as_it_is():
    """A byte-order mark, bytes that are no UTF-8, no newline at the end."""
    assert edited("\ufeffone".encode(), "one", "two")[0] == "\ufefftwo".encode()
    assert edited(b"caf\xe9 one", "one", "two")[0] == b"caf\xe9 two"
    with pytest.raises(ToolFailure, match="not UTF-8"):
        edited(b"caf\xe9 one", "one", "é")
    with pytest.raises(ToolFailure, match="not a text file"):
        edited("one".encode("utf-16"), "one", "two")


def test_a_file_that_is_not_there_or_too_large(bench, monkeypatch):
    from halo.tools import file_edit as module

    assert "does not exist" in bench.refusal("file_edit", path="a", old_string="x", new_string="y")
    bench.write({"a": "x" * 101})
    monkeypatch.setattr(module, "_LARGEST", 100)
    assert "too large to edit" in bench.refusal("file_edit", path="a", old_string="x", new_string="y")


TEXTS = st.text(st.sampled_from("ab\n\r$\\é"), max_size=8)


@given(TEXTS, TEXTS.filter(bool), TEXTS, TEXTS)
def test_an_edit_is_the_replacement_of_one_text(before, old, new, after):
    data = (before + old + after).encode()
    if b"\r\n" in data or data.count(old.encode()) != 1 or old == new:
        return
    if data.find(old.encode(), data.find(old.encode()) + 1) >= 0:  # they overlap
        return
    assert edited(data, old, new)[0] == data.replace(old.encode(), new.encode())


@given(st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=6), st.data())
def test_a_file_of_crlf_stays_one(rows, data):
    """Whatever lines of it a model gives with LF alone."""
    start = data.draw(st.integers(0, len(rows) - 1))
    end = data.draw(st.integers(start + 1, len(rows)))
    old, new = "\n".join(rows[start:end]), "x\ny"
    if not old:
        return
    try:
        made, _ = edited("\r\n".join([*rows, ""]).encode(), old, new, replace_all=True)
    except ToolFailure:
        raise AssertionError(rows) from None
    assert b"\n" not in made.replace(b"\r\n", b"")
    assert b"x\r\ny" in made
