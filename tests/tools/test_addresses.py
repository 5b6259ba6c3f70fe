"""Whatever a model writes for a path: a file of the workspace, or one clear sentence."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.tools.addresses import Address, parse, rest_below
from halo.tools.base import ToolFailure

CALLS = (("file_read", {}), ("file_list", {}), ("file_list", {"recursive": True}), ("grep", {"pattern": "x"}))

ODD = {
    "": None,
    ".": None,
    "./": None,
    "/": "outside the workspace",
    "//": "outside the workspace",
    "..": "leads out",
    "../": "leads out",
    "d/../..": "leads out",
    "./../ws/a.txt": "leads out",
    "/etc/passwd": "outside the workspace",
    "/proc/self/environ": "outside the workspace",
    "//server/share/x": "outside the workspace",
    "~": "does not exist",
    "~/x": "does not exist",
    "~root/.ssh": "does not exist",
    "$HOME/x": "does not exist",
    "file:///etc/passwd": "does not exist",
    "a\0b": "NUL",
    "\0": "NUL",
    "skill:notes/\0": "NUL",
    "\ud800": "surrogate",
    "caf\udce9": "surrogate",
    "skill:\udfff": "surrogate",
    "n" * 300: "too long",
    "d/" + "n" * 300 + "/x": "too long",
    "ä" * 200: "too long",
    "n/" * 3000: "too long",
    "n" * 100_000: "too long",
    "a/b" * 1000: "does not exist",
    "circle": "does not exist or symlinks",
    "circle/x": "symlinks",
    "a.txt/x": "not a folder",
    "a.txt/../../x": "leads out",
    "out": "leaves its root",
    "out/x": "leaves its root",
    "up/secret.txt": "leaves its root",
    "absolute": "leaves its root",
    "skill:": "no skill ''",
    "skill:/": "no skill ''",
    "skill:..": "no skill '..'",
    "skill:../notes": "no skill '..'",
    "skill:.": "no skill '.'",
    "skill: notes/x": "no skill ' notes'",
    "skill:NOTES/x": "no skill 'NOTES'",
    "skill:notes:x": "no skill 'notes:x'",
    "skill:skill:notes": "no skill 'skill:notes'",
    "skill:" + "n" * 4000: "no skill 'nnn",
    "skill:notes/..": "leads out",
    "skill:notes/../../secret.txt": "leads out",
    "skill:notes//etc/passwd": "does not exist",
    "skill:notes/absent": "does not exist",
    "skill:notes/out": "leaves its root",
    "SKILL:notes": "does not exist",
    "./skill:notes": "does not exist",
    "a\nb": "does not exist",
    "\x1b[31m": "does not exist",
}


@pytest.fixture
def odd(bench):
    bench.write({"a.txt": "x\n", "d/a.txt": "x\n"})
    os.symlink("circle", bench.root / "circle")
    os.symlink(bench.secret, bench.root / "out")
    os.symlink("..", bench.root / "up")
    os.symlink("/etc/passwd", bench.root / "absolute")
    os.symlink("../../secret.txt", bench.skill / "out")
    return bench


@pytest.mark.skipif(os.name == "nt", reason="the rules of POSIX; those of Windows are tested below")
@pytest.mark.parametrize("path", ODD, ids=lambda p: ascii(p)[:40])
def test_odd_paths_are_answered_in_one_sentence(odd, path):
    for tool, more in CALLS:
        result = odd.call(tool, path=path, **more)
        assert "internal" not in result.text
        assert "top secret" not in result.text
        if ODD[path] is None:
            assert not result.is_error or result.text == ". is a folder; use file_list"
        else:
            assert result.is_error
            assert len(result.text.splitlines()) == 1
            assert len(result.text) < 400
            assert any(said in result.text for said in ODD[path].split(" or ")), result.text


@pytest.mark.skipif(os.name == "nt", reason="the rules of POSIX")
@pytest.mark.parametrize("path", ["d\\a.txt", "C:\\Users\\x", "\\\\server\\share", "skill:notes\\x", "..\\x"])
def test_backslashes_are_refused_where_they_are_no_separator(odd, path):
    assert "write paths with '/'" in odd.refusal("file_read", path=path)


@pytest.mark.parametrize(
    "path",
    ["a.txt", "./a.txt", "a.txt/", "a.txt/.", ".//a.txt//", "d/../a.txt", "nope/../a.txt", "d/./../a.txt"],
)
def test_spellings_of_one_file(odd, path):
    """Segments are taken as text, so a folder that is stepped out of need not exist."""
    assert odd.text("file_read", path=path) == "1\tx"
    assert odd.text("grep", pattern="x", path=path) == "a.txt:1:x"


def test_absolute_paths_through_links(odd, tmp_path):
    """The workspace may be known by another name than the one it was opened with."""
    os.symlink(odd.root, tmp_path / "other")
    os.symlink(tmp_path, tmp_path / "around")
    root, here = str(odd.root), str(tmp_path)
    for spelling in (
        root,
        f"{here}/other",
        f"{here}/around/ws",
        f"{here}/around/around/other",
        f"{root}/.",
        f"/{root}",
    ):
        assert odd.text("grep", pattern="x", path=f"{spelling}/d") == "d/a.txt:1:x"
        assert odd.text("file_read", path=f"{spelling}/d/a.txt/") == "1\tx"
        assert "outside" in odd.refusal("file_read", path=f"{spelling}/../secret.txt")
        assert "leaves" in odd.refusal("file_read", path=f"{spelling}/up/secret.txt")
    assert "outside" in odd.refusal("file_read", path=f"{here}/ws-2/a.txt")
    assert "outside" in odd.refusal("file_read", path=f"{here}/around/secret.txt")


def test_a_workspace_opened_through_a_link(bench, tmp_path):
    from halo.files.roots import ConfinedRoot
    from halo.tools.grep import grep

    bench.write({"a.txt": "x\n"})
    os.symlink(bench.root, tmp_path / "other")
    around = bench.around._replace(workspace=ConfinedRoot(str(tmp_path / "other")))
    for spelling in (tmp_path / "other", bench.root, os.path.realpath(bench.root)):
        assert grep({"pattern": "x", "path": f"{spelling}/a.txt"}, around) == "a.txt:1:x"


# the rules of Windows, on every system


def test_windows_separators_and_drives():
    assert parse("d\\e\\..\\a.txt", windows=True) == Address(None, "d/a.txt")
    assert parse("skill:notes\\refs\\a.md", windows=True) == Address("notes", "refs/a.md")
    assert parse("C:\\ws\\a.txt", windows=True) == Address(None, "C:/ws/a.txt", absolute=True)
    assert parse("\\ws\\a.txt", windows=True) == Address(None, "/ws/a.txt", absolute=True)


@pytest.mark.parametrize(
    "path",
    [
        "..\\x",
        "d\\..\\..\\x",
        "C:x",
        "C:",
        "c:..\\x",
        "a.txt:stream",
        "a.txt::$DATA",
        "d:\\x:y",
        "skill:n\\..\\x",
    ],
)
def test_windows_paths_that_are_refused(path):
    with pytest.raises(ToolFailure):
        parse(path, windows=True)


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("C:/ws/a.txt", "a.txt"),
        ("c:/WS/D/a.txt", "D/a.txt"),
        ("C:/ws", ""),
        ("C:/ws2/a.txt", None),
        ("D:/ws/a.txt", None),
        ("//server/share/ws/a.txt", None),
        ("//?/C:/ws/a.txt", None),
    ],
)
def test_windows_tells_no_case(path, rest):
    assert rest_below(path, "C:\\ws", windows=True) == rest


def test_posix_tells_case():
    assert rest_below("/ws/a", "/ws/", windows=False) == "a"
    assert rest_below("/WS/a", "/ws", windows=False) is None
    assert rest_below("/a/b", "/", windows=False) == "a/b"


@given(st.text(st.sampled_from("ab./\\:\0C ~\ud800") | st.characters(), max_size=30), st.booleans())
def test_no_text_leads_out(path, windows):
    try:
        address = parse(path, windows=windows)
    except ToolFailure:
        return
    parts = address.path.split("/")
    assert ".." not in parts
    assert "." not in parts
    assert address.absolute or not address.path.startswith("/")
    assert "\\" not in address.path
