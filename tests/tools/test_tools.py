"""What the tools give a model, and what they refuse."""

import asyncio
import os

import pytest

from halo.records.messages import ToolCall
from halo.records.tools import ToolSpec
from halo.tools.toolbox import Toolbox

# file_read


def test_lines_are_numbered_from_one(bench):
    bench.write({"a.txt": "one\ntwo\n"})
    assert bench.text("file_read", path="a.txt") == "1\tone\n2\ttwo"


def test_a_part_says_how_to_go_on(bench):
    bench.write({"a.txt": "".join(f"line {n}\n" for n in range(1, 13))})
    text = bench.text("file_read", path="a.txt", offset=9, limit=2)
    assert text == " 9\tline 9\n10\tline 10\n... 2 more lines; go on with offset=11"


def test_beyond_the_end_is_said(bench):
    bench.write({"a.txt": "x\n", "empty.txt": ""})
    assert "has 1 lines" in bench.text("file_read", path="a.txt", offset=5)
    assert bench.text("file_read", path="empty.txt") == "(empty)"


def test_long_files_need_a_range(bench):
    bench.write({"big.txt": "0123456789\n" * 250_000})
    assert "offset and limit" in bench.refusal("file_read", path="big.txt")
    assert bench.text("file_read", path="big.txt", offset=2, limit=1).startswith("2\t0123456789\n...")


def test_binary_files_and_folders_are_refused(bench):
    bench.write({"b.bin": b"\0\1", "d/x": ""})
    assert "not a text file" in bench.refusal("file_read", path="b.bin")
    assert "file_list" in bench.refusal("file_read", path="d")
    assert "does not exist" in bench.refusal("file_read", path="nope.txt")


def test_halo_files_can_be_read(bench):
    bench.write({".halo/INDEX.md": "index\n"})
    assert bench.text("file_read", path=".halo/INDEX.md") == "1\tindex"


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "d/../../secret.txt", "skill:../../secret.txt"]
)
def test_nothing_outside_the_workspace_can_be_named(bench, path):
    bench.write({"d/x": ""})
    assert "secret" not in bench.refusal("file_read", path=path).replace(path, "")


def test_links_that_leave_are_refused_everywhere(bench):
    os.symlink(bench.secret, bench.root / "link")
    os.symlink(bench.root.parent, bench.root / "up")
    assert "top" not in bench.refusal("file_read", path="link")
    assert "top" not in bench.refusal("file_read", path="up/secret.txt")
    assert bench.text("grep", pattern="secret") == "no match for 'secret'\n2 entries could not be read"
    assert bench.text("file_list", recursive=True).splitlines() == ["link", "up"]


def test_an_absolute_path_below_the_root_works(bench):
    bench.write({"d/a.txt": "x\n"})
    assert bench.text("file_read", path=f"{bench.root}/d/a.txt") == "1\tx"


def test_files_of_skills_elsewhere_have_an_address(bench):
    (bench.skill / "references").mkdir()
    (bench.skill / "references" / "a.md").write_text("form\n")
    assert bench.text("file_read", path="skill:notes/references/a.md") == "1\tform"
    assert bench.text("file_list", path="skill:notes") == "skill:notes/references/"
    assert "no skill 'other'" in bench.refusal("file_read", path="skill:other/a.md")


# file_list


def test_folders_end_in_a_slash(bench):
    bench.write({"b/x": "", "a.txt": ""})
    assert bench.text("file_list") == "a.txt\nb/"
    assert bench.text("file_list", path="b") == "b/x"
    assert "is not a folder" in bench.refusal("file_list", path="a.txt")


def test_a_recursive_listing_is_bounded_and_skips_git(bench):
    bench.write({f"d/{n:04}": "" for n in range(600)} | {".git/config": ""})
    lines = bench.text("file_list", recursive=True).splitlines()
    assert lines[:3] == [".git/", "d/", "d/0000"]
    assert len(lines) == 501
    assert "more than 500" in lines[-1]


def test_links_inside_the_workspace_are_listed_and_not_followed(bench):
    """A link back to the root does not send a walk round in circles."""
    bench.write({"d/a.txt": "needle\n"})
    os.symlink(".", bench.root / "loop")
    assert bench.text("file_list", recursive=True).splitlines() == ["d/", "d/a.txt", "loop/"]
    assert bench.text("grep", pattern="needle") == "d/a.txt:1:needle"
    assert bench.text("file_read", path="loop/d/a.txt") == "1\tneedle"


# grep


def test_matches_name_path_and_line(bench):
    bench.write({"src/a.py": "import os\nx = 1\n", "b.md": "import it\n", ".halo/x.md": "import\n"})
    assert bench.text("grep", pattern="^import") == "b.md:1:import it\nsrc/a.py:1:import os"
    assert bench.text("grep", pattern="^import", include="*.{py,txt}") == "src/a.py:1:import os"
    assert bench.text("grep", pattern="import", path=".halo") == ".halo/x.md:1:import"
    assert bench.text("grep", pattern="x", path="src/a.py") == "src/a.py:2:x = 1"


def test_no_match_and_too_many_are_said(bench):
    bench.write({"a": "x\n" * 5})
    assert bench.text("grep", pattern="y") == "no match for 'y'"
    assert bench.text("grep", pattern="x", max_results=2).splitlines()[-1].startswith("... more than 2")


def test_a_bad_pattern_is_answered(bench):
    bench.write({"a": "x"})
    assert "regular expression" in bench.refusal("grep", pattern="(")


def test_long_lines_and_binaries_do_not_flood(bench):
    bench.write({"long": "needle" + "x" * 10_000, "bin": b"\0needle"})
    assert bench.text("grep", pattern="needle").endswith("[10006 characters]")


# the toolbox


def test_a_skill_is_loaded_as_it_was_compiled(bench):
    assert bench.text("activate_skill", skill_id="notes") == "# Skill: notes\n"


def test_arguments_that_do_not_fit_are_answered_and_never_run(bench):
    assert "skill_id" in bench.refusal("activate_skill")
    assert "skill_id" in bench.refusal("activate_skill", skill_id="nope")
    assert "limit" in bench.refusal("file_read", path="a", limit="many")
    assert "wrong" in bench.refusal("file_read", path="a", wrong=1)


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"', "null", "nope"])
def test_arguments_that_are_no_object_are_answered(bench, arguments):
    result = asyncio.run(bench.toolbox.run(ToolCall("c1", "file_read", arguments)))
    assert result.is_error
    assert result.call_id == "c1"


def test_an_unknown_tool_names_the_known_ones(bench):
    assert "yours are: file_read" in bench.refusal("rm_rf")


def test_tools_without_an_implementation_are_refused_and_named(bench):
    assert "cannot be run here" in bench.refusal("start_session", agent_id="x", message="y")
    assert "file_read" not in bench.toolbox.missing
    assert "start_session" in bench.toolbox.missing


# What an artifact says of a tool


@pytest.mark.parametrize("name", ["file_write", "shell_exec", "web_fetch", "mcp__wiki__search"])
def test_a_tool_needs_what_it_needs_whatever_an_artifact_says(bench, name):
    """A bundle that somebody unpacked may hold any manifest; its agents only read."""
    forged = ToolSpec(name, "harmless", {"type": "object", "properties": {}}, access="readonly")
    ran = []

    def tool(arguments, around):
        ran.append(arguments)
        return "ran"

    toolbox = Toolbox((forged,), bench.around._replace(access="readonly"), {name: tool})
    result = asyncio.run(toolbox.run(ToolCall("c", name, "{}")))
    assert (result.is_error, ran) == (True, [])
    assert "needs workspace access" in result.text


def test_a_builtin_tool_is_checked_against_its_own_schema(bench):
    forged = ToolSpec(
        "file_read", "harmless", {"type": "object", "properties": {"path": {"pattern": "(a+)+$"}}}
    )
    toolbox = Toolbox((forged,), bench.around)
    result = asyncio.run(toolbox.run(ToolCall("c", "file_read", f'{{"path": "{"a" * 40}!"}}')))
    assert "does not exist" in result.text
    assert "path" in asyncio.run(toolbox.run(ToolCall("c", "file_read", "{}"))).text
