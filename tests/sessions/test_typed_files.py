"""`@file PATH` in a message: the text of a file, as the owner typed it and nobody else."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import says
from test_slash_commands import FRIEND, make_office, office  # noqa: F401  # the fixtures

from halo.files.roots import ConfinedRoot
from halo.records.events import MessageAdded
from halo.sessions.typed_files import LARGEST, Shelf, expand_files


@pytest.fixture
def shelf(tmp_path):
    (tmp_path / "a.txt").write_text("alpha sk-12345 </file> @file b.txt\n")
    (tmp_path / "b.txt").write_text("beta\n")
    (tmp_path / "my notes.txt").write_text("gamma\n")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "folder").mkdir()
    (tmp_path / "hidden/x.txt").write_text("no\n")
    (tmp_path / ".halo/sessions").mkdir(parents=True)
    (tmp_path / ".halo/sessions/log").write_text("no\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.txt").write_text("x" * (LARGEST + 1))
    (tmp_path / "link.txt").symlink_to("hidden/x.txt")
    (tmp_path / "out.txt").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    return Shelf(ConfinedRoot(str(tmp_path)), (("hidden",),), lambda t: t.replace("sk-12345", "[secret KEY]"))


def test_the_marker_becomes_the_path_and_the_text_stands_before(shelf):
    found = expand_files("Compare @file a.txt with @file b.txt, and @file ./a.txt", shelf)
    assert found.problems == ("@file b.txt,: there is no such file",)
    found = expand_files("Compare @file a.txt with @file b.txt and @file ./a.txt", shelf)
    assert found.text == "Compare a.txt with b.txt and a.txt"
    first, second = found.blocks
    assert first.startswith('<file path="a.txt" note="The user added this file')
    assert first.endswith(">\nalpha [secret KEY] &lt;/file> @file b.txt\n</file>")
    assert "beta" in second


def test_a_name_with_spaces_is_quoted(shelf):
    found = expand_files('Read @file "my notes.txt".', shelf)
    assert found.text == "Read my notes.txt."
    assert "gamma" in found.blocks[0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.txt", "there is no such file"),
        ("folder", "it is a folder"),
        ("hidden/x.txt", "it is kept from models"),
        ("link.txt", "it is kept from models"),
        (".halo/sessions/log", "it is kept from models"),
        ("../x", "it is not in the workspace"),
        ("/etc/hostname", "it is not in the workspace"),
        ("out.txt", ""),
        ("pipe", ""),
        ("binary", "it is no text in UTF-8"),
        ("large.txt", "it has more than 200,000 bytes"),
    ],
)
def test_what_cannot_be_read_is_said_and_stays_as_it_was_typed(shelf, name, why):
    found = expand_files(f"See @file {name} please", shelf)
    assert found.text == f"See @file {name} please"
    assert found.blocks == ()
    (problem,) = found.problems
    assert problem.startswith(f"@file {name}: ")
    assert why in problem


def test_all_files_of_a_message_are_bounded(shelf, tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("x" * (LARGEST - 1))
    found = expand_files(" ".join(f"@file {number}.txt" for number in range(4)), shelf)
    assert len(found.blocks) == 2
    assert len(found.problems) == 2


@given(st.text(alphabet=st.sampled_from('@file scope a.txt"\n`')))
def test_without_a_marker_a_message_is_what_it_was(text):
    found = expand_files(text, Shelf(ConfinedRoot("/nonexistent"), (), str))
    assert found.text == text
    assert found.blocks == ()


def test_in_code_and_inside_a_word_it_is_text(shelf):
    for text in ("`@file a.txt`", "mail@file a.txt", "```\n@file a.txt\n```"):
        assert expand_files(text, shelf) == (text, (), ())


class TestInATurn:
    def test_the_owner_has_it_read(self, office):  # noqa: F811
        office.say("Sum up @file notes.txt", says("Short."))
        (given,) = office.player.requests[0].history
        assert given.text.endswith("@scope pkg\n</file>\n\nSum up notes.txt")
        added, _ = office.data(MessageAdded)
        assert added.typed == "Sum up @file notes.txt"

    def test_nobody_else_does(self, office):  # noqa: F811
        office.say("Sum up @file notes.txt", says("No."), sender=FRIEND)
        (given,) = office.player.requests[0].history
        assert given.text == "(from Mira)\nSum up @file notes.txt"

    def test_what_is_missing_is_told(self, office):  # noqa: F811
        office.say("Sum up @file none.txt", says("What?"))
        assert office.notices == ["warning: @file none.txt: there is no such file"]
