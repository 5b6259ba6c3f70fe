"""glob: what a pattern means, where it searches, and what it never lists."""

import fnmatch
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.files.roots import ConfinedRoot
from halo.tools import glob as module
from halo.tools.base import LONGEST, ToolFailure
from halo.tools.path_patterns import PathPattern


def fits(pattern, *paths):
    """Return those of `paths` that match."""
    made = PathPattern(pattern)
    return [path for path in paths if made.matches(tuple(path.split("/")[:-1]), path.split("/")[-1])]


def files(bench, *paths):
    bench.write(dict.fromkeys(paths, ""))


# What a pattern means


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("*.py", ["a.py", ".py", ".a.py"], ["a.pyc", "d/a.py", "apy"]),
        ("?.py", ["a.py", "é.py"], [".py", "ab.py", "d/a.py"]),
        ("[ab].py", ["a.py", "b.py"], ["c.py", "ab.py"]),
        ("[!ab].py", ["c.py", "!.py"], ["a.py"]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[]x]", ["]", "x"], ["[]x]"]),
        ("a[b.py", ["a[b.py"], ["ab.py"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/f/a.py"], ["a.txt"]),
        ("src/**/*.py", ["src/a.py", "src/d/e/a.py"], ["a.py", "xsrc/a.py", "x/src/a.py"]),
        ("src/**", ["src/a", "src/d/e"], ["src", "a"]),
        ("**", ["a", "d/e/f"], []),
        ("**/d/**/x", ["d/x", "a/d/b/c/x", "d/d/x"], ["x", "dd/x"]),
        ("**/**/x", ["x", "a/b/c/x"], ["a/xx"]),
        ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
        ("a**b", ["ab", "axxb"], ["a/b", "axx/b"]),
        ("*.{md,txt}", ["a.md", "a.txt"], ["a.mdtxt", "a."]),
        ("{src,docs/api}/*.md", ["src/a.md", "docs/api/a.md"], ["docs/a.md"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "ad"]),
        ("a{,.py}", ["a", "a.py"], ["b"]),
        ("a{b", ["a{b"], ["ab"]),
        ("a}b", ["a}b"], ["ab"]),
        ("{{a,b}", ["{a", "{b"], ["a"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("./a//b/./c", ["a/b/c"], ["a/c"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a+(b)|$c^", ["a+(b)|$c^"], ["aab", "a"]),
        ("A.PY", ["A.PY"], ["a.py"]),
        ("a b\nc*", ["a b\ncd\n"], ["a b c"]),
    ],
)
def test_a_pattern(pattern, fitting, other):
    assert fits(pattern, *fitting, *other) == fitting


@pytest.mark.parametrize(
    "pattern", ["", "/", "src/", "src/*/", "/src/*.py", "../*.py", "a/../b", ".", "{a,/b}", "{,a}"]
)
def test_a_pattern_that_names_nothing_below_is_refused(bench, pattern):
    assert bench.refusal("glob", pattern=pattern)


NAMES = st.text(st.sampled_from("ab.{,"), min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
LITERAL = st.text(st.characters(exclude_characters="*?[{}/\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(LITERAL.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4))
def test_all_other_characters_stand_for_themselves(parts):
    path = "/".join(parts)
    assert fits(path, path) == [path]
    assert fits("**/" + path, "x/" + path) == ["x/" + path]


PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "?"])


@given(
    st.lists(PARTS, min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6),
)
def test_parts_match_as_the_definition_says(pattern, path):
    """The definition, written down: `**` is nothing, or a folder and `**`; at the end it is everything below."""

    def defined(pattern, path):
        if not pattern:
            return not path
        if pattern[0] == "**":
            if len(pattern) == 1:
                return bool(path)
            return defined(pattern[1:], path) or (len(path) > 1 and defined(pattern, path[1:]))
        return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and defined(pattern[1:], path[1:])

    assert bool(fits("/".join(pattern), "/".join(path))) == defined(pattern, path)


@given(st.lists(PARTS, min_size=1, max_size=4), st.lists(st.sampled_from(["a", "b"]), min_size=2, max_size=4))
def test_every_folder_on_the_way_to_a_match_is_entered(pattern, path):
    made = PathPattern("/".join(pattern))
    if made.matches(tuple(path[:-1]), path[-1]):
        assert all(made.enters(tuple(path[:depth])) for depth in range(1, len(path)))


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 400 + "b",
        "**/" * 300 + "x",
        "a" * 1001,
        "{a,b}" * 12,
        "{" * 900,
        "[" * 900,
        "{a}" * 300 + "*" * 50,
    ],
)
def test_no_pattern_runs_wild(bench, pattern):
    files(bench, "a" * 200, "a/" * 40 + "a" * 200)
    start = time.monotonic()
    bench.call("glob", pattern=pattern)
    assert time.monotonic() - start < 5


def test_too_many_alternatives_are_refused():
    with pytest.raises(ToolFailure, match="more than 200"):
        PathPattern("{a,b}" * 12)
    with pytest.raises(ToolFailure, match="1001 characters"):
        PathPattern("a" * 1001)


# Where it searches


def test_paths_are_shown_from_the_root_in_order(bench):
    files(bench, "src/b.py", "src/a/z.py", "src/a.py", "b.md", "src/a/deep/x.py")
    assert bench.text("glob", pattern="**/*.py").split() == [
        "src/a/deep/x.py", "src/a/z.py", "src/a.py", "src/b.py",
    ]  # fmt: skip
    assert bench.text("glob", pattern="*.py", path="src").split() == ["src/a.py", "src/b.py"]
    assert bench.text("glob", pattern="**/z.py", path="./src/a/").split() == ["src/a/z.py"]
    assert bench.text("glob", pattern="a.py", path=f"{bench.root}/src") == "src/a.py"


def test_files_of_skills_elsewhere_are_found(bench):
    (bench.skill / "refs").mkdir()
    (bench.skill / "refs" / "a.md").write_text("")
    assert bench.text("glob", pattern="**/*.md", path="skill:notes") == "skill:notes/refs/a.md"


def test_nothing_found_is_said(bench):
    files(bench, "src/a.py")
    assert bench.text("glob", pattern="*.rs") == "no file matches *.rs"
    assert bench.text("glob", pattern="src") == (
        "no file matches src; it is a folder: file_list shows what is in it"
    )
    assert "is a file" in bench.refusal("glob", pattern="*", path="src/a.py")
    assert "does not exist" in bench.refusal("glob", pattern="*", path="nowhere")


SKIPPED = [".git", ".halo", "node_modules", ".next", "dist", "__pycache__", ".venv"]


@pytest.mark.parametrize("folder", SKIPPED)
def test_folders_of_tools_are_skipped_unless_they_are_named(bench, folder):
    files(bench, "a.md", f"{folder}/x/b.md", f"sub/{folder}/c.md", f"{folder}/x/{folder}/d.md")
    assert bench.text("glob", pattern="**/*.md") == "a.md"
    assert bench.text("glob", pattern="*/*/*.md").startswith("no file")
    assert bench.text("glob", pattern="**/*.md", path=folder) == f"{folder}/x/b.md"
    assert bench.text("glob", pattern=f"{folder}/**/*.md") == f"{folder}/x/b.md"
    assert bench.text("glob", pattern=f"sub/{folder}/*") == f"sub/{folder}/c.md"
    # The one alternative that names it opens it for no other.
    assert bench.text("glob", pattern=f"{{{folder}/none/*,**/*.md}}") == "a.md"


def test_a_file_of_such_a_name_is_a_file(bench):
    files(bench, "sub/dist", "sub/.git")
    assert bench.text("glob", pattern="**/*").split() == ["sub/.git", "sub/dist"]


def test_links_are_listed_and_not_entered(bench):
    files(bench, "d/a.py")
    os.symlink(".", bench.root / "loop")
    os.symlink("d/a.py", bench.root / "link.py")
    os.symlink("nowhere", bench.root / "dangling.py")
    os.symlink(bench.secret, bench.root / "out.py")
    assert bench.text("glob", pattern="**/*.py").split() == ["d/a.py", "link.py"]


def test_what_is_kept_from_models_is_listed_by_no_name(bench):
    files(
        bench,
        ".halo/INDEX.md",
        ".halo/settings.yaml",
        ".halo/sessions/2026-11/s/events.jsonl",
        ".halo/traces/t",
        ".halo/evo/runs/r",
        ".halo/batch/b",
        ".halo/machine.key",
        "sub/.halo/settings.yaml",
    )
    os.symlink(".halo/settings.yaml", bench.root / "alias")
    os.symlink(".halo/sessions", bench.root / "past")
    assert bench.text("glob", pattern="**", path=".halo") == ".halo/INDEX.md"
    assert bench.text("glob", pattern="{.halo/**,sub/.halo/**,alias,past/**,*}") == ".halo/INDEX.md"
    for pattern in (".halo/settings.yaml", ".halo/sessions/**", ".halo/*.key", "alias", "past/*/*/*"):
        assert bench.text("glob", pattern=pattern).startswith("no file matches")
    assert "kept from models" in bench.refusal("glob", pattern="**", path=".halo/sessions")
    assert "kept from models" in bench.refusal("glob", pattern="**", path="past")


# How much


def test_a_long_list_ends_at_a_whole_line(bench, monkeypatch):
    files(bench, *(f"{n:03}{'x' * 200}" for n in range(200)))
    text = bench.text("glob", pattern="*")
    assert len(text) <= LONGEST
    *lines, note = text.splitlines()
    assert note == f"... {200 - len(lines)} more files; narrow the pattern"
    monkeypatch.setattr(module, "_MOST", 3)
    assert bench.text("glob", pattern="*").splitlines()[-1] == "... 197 more files; narrow the pattern"
    assert "more" not in bench.text("glob", pattern="00[012]*")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder of 10,000 files whose names make a pattern try for long."""
    root = tmp_path_factory.mktemp("many")
    for folder in range(100):
        below = root / f"{folder:02}" / ("a" * 60)
        below.mkdir(parents=True)
        for number in range(100):
            (below / f"{'a' * 60}{number}").touch()
    return root


@pytest.mark.parametrize(
    "pattern", ["**/" + "*a" * 100 + "b", "{**/,}" * 5 + "{x,y,z,a*a*a*a*b}", "**/a*/**/" * 30 + "b", "**/*9"]
)
def test_ten_thousand_files_are_searched_in_bounded_time(bench, many, pattern):
    bench.around = bench.around._replace(workspace=ConfinedRoot(str(many)))
    bench.restrict("full")  # a toolbox in these surroundings
    start = time.monotonic()
    text = bench.text("glob", pattern=pattern)
    assert time.monotonic() - start < module._SECONDS + 3
    if pattern == "**/*9":
        found = [line for line in text.splitlines() if line.endswith("9")]
        assert text.splitlines()[-1] == f"... {1000 - len(found)} more files; narrow the pattern"


def test_a_search_that_takes_long_is_stopped_and_said(bench, monkeypatch):
    files(bench, "a", "b")
    monkeypatch.setattr(module, "_SECONDS", -1.0)
    assert bench.text("glob", pattern="*").endswith(
        "was stopped after -1 seconds; start further down, with path"
    )


def test_a_folder_that_cannot_be_read_is_counted(bench, broken):
    files(bench, "a/x", "b/x")
    broken("a")
    assert bench.text("glob", pattern="**").splitlines() == ["b/x", "1 entry could not be read"]
