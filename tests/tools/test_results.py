"""Results: their length, their text, and what becomes of a tool that fails."""

import asyncio
import json
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.records.messages import ToolCall
from halo.records.tools import ToolSpec
from halo.tools import toolbox
from halo.tools.base import LONGEST, ToolFailure
from halo.tools.toolbox import check_arguments


def read_all(bench, path):
    """Follow the hints of file_read to the end; return the lines and how many calls it took."""
    lines, offset, calls = [], 1, 0
    while offset:
        text = bench.text("file_read", path=path, offset=offset, limit=10**9)
        assert len(text) <= LONGEST
        calls += 1
        *part, last = text.split("\n")
        offset = int(last.rsplit("=", 1)[1]) if last.startswith("... ") else None
        lines += part if offset else [*part, last]
    return [line.split("\t", 1)[1] for line in lines], calls


def test_a_long_file_is_read_whole_by_following_the_hints(bench):
    lines = [f"{n} " + "x" * (n * 37 % 400) for n in range(1000)]
    bench.write({"a.txt": "\n".join(lines)})
    read, calls = read_all(bench, "a.txt")
    assert read == lines
    assert calls > 5


def test_the_hint_names_what_is_left(bench):
    bench.write({"a.txt": ("x" * 999 + "\n") * 100})
    last = bench.text("file_read", path="a.txt").splitlines()[-1]
    assert last == "... 71 more lines; go on with offset=30"


def test_a_line_longer_than_a_result_is_cut_and_says_so(bench):
    bench.write({"a.txt": "first\n" + "x" * 40_000 + "\nlast\n"})
    assert bench.text("file_read", path="a.txt") == "1\tfirst\n... 2 more lines; go on with offset=2"
    cut, hint = bench.text("file_read", path="a.txt", offset=2).splitlines()
    assert cut.endswith("x... [cut: line 2 has 40000 characters]")
    assert len(cut) > 29_000
    assert hint == "... 1 more lines; go on with offset=3"
    assert bench.text("file_read", path="a.txt", offset=3) == "3\tlast"


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"a", b"a\n", b"a\n\n", b"\r\n", b"a\r\nb", b"\xff\n\xfe", "ä\u2028b\x0cc\n".encode()],
)
def test_lines_end_at_newlines_alone(bench, data):
    bench.write({"a": data})
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines:
        assert bench.text("file_read", path="a").split("\n") == [f"{n}\t{x}" for n, x in enumerate(lines, 1)]
    else:
        assert bench.text("file_read", path="a") == "(empty)"


def test_numbers_may_be_any_integer(bench):
    bench.write({"a": "x\ny\n"})
    assert "beyond its end" in bench.text("file_read", path="a", offset=10**30)
    assert bench.text("file_read", path="a", limit=10**30) == "1\tx\n2\ty"
    assert bench.text("file_read", path="a", offset=2.0, limit=1.0) == "2\ty"
    assert bench.text("grep", pattern="x", max_results=10**30) == "a:1:x"


def test_a_skill_is_never_cut(bench):
    bench.skills["notes"] = "x" * (3 * LONGEST)
    assert bench.text("activate_skill", skill_id="notes") == "x" * (3 * LONGEST)


def test_lists_and_matches_end_at_a_whole_line(bench):
    bench.write({f"{n:03}{'x' * 200}.txt": f"needle {'y' * 300}\n" for n in range(200)})
    for text in (
        bench.text("file_list"),
        bench.text("file_list", recursive=True),
        bench.text("grep", pattern="needle", max_results=1000),
    ):
        assert len(text) <= LONGEST
        *lines, note = text.split("\n")
        assert note.startswith("... ")
        assert len({len(line) for line in lines}) == 1
    assert "... 59 more entries" in bench.text("file_list")


def test_any_other_long_result_is_cut_with_a_note(bench, monkeypatch):
    monkeypatch.setitem(toolbox.IMPLEMENTED, "grep", lambda _arguments, _around: "x" * 40_000)
    text = bench.text("grep", pattern="x")
    assert text.endswith("[cut: 40000 characters in all, the first 30000 are shown; ask for a smaller part]")


def failing(error):
    def tool(_arguments, _around):
        raise error

    return tool


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolFailure("do this instead"), "do this instead"),
        (ValueError("odd"), "internal error: ValueError: odd"),
        (RecursionError("deep"), "internal error: RecursionError: deep"),
        (MemoryError(), "internal error: MemoryError: "),
        (KeyError("x"), "internal error: KeyError: 'x'"),
        (StopIteration(), "internal error: StopIteration: "),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), None),
        (AssertionError("a\nb" * 400), None),
    ],
)
def test_what_a_tool_raises_is_answered(bench, monkeypatch, error, text):
    monkeypatch.setitem(toolbox.IMPLEMENTED, "grep", failing(error))
    said = bench.refusal("grep", pattern="x")
    assert len(said) < 300
    assert len(said.splitlines()) == 1
    assert text is None or said == text


def test_a_skill_that_cannot_be_loaded_is_answered(bench):
    toolbox_ = toolbox.Toolbox((), bench.around._replace(load_skill=failing(OSError())))
    toolbox_._specs = bench.toolbox._specs
    call = ToolCall("c1", "activate_skill", '{"skill_id": "notes"}')
    assert asyncio.run(toolbox_.run(call)).is_error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_passes(bench, monkeypatch, error):
    monkeypatch.setitem(toolbox.IMPLEMENTED, "grep", failing(error()))
    with pytest.raises(error):
        bench.call("grep", pattern="x")


def test_an_internal_error_names_no_folder_of_the_machine(bench, monkeypatch):
    """The bench checks each result for its own folders; others are cut off, too."""
    for error in (
        PermissionError(13, "Permission denied", f"{bench.root}/a.txt"),
        ValueError(f"bad file {bench.root}/d/a.txt"),
        ValueError(f"bad file {bench.skill}/a.txt"),
        ImportError("cannot load '/home/ann/.venv/lib/x.so'"),
        ValueError(r"cannot load C:\Users\ann\x.dll"),
    ):
        monkeypatch.setitem(toolbox.IMPLEMENTED, "grep", failing(error))
        assert "/ann" not in bench.refusal("grep", pattern="x")
        assert "\\ann" not in bench.refusal("grep", pattern="x")


def test_arguments_nested_beyond_the_stack_are_answered(bench):
    call = ToolCall("c1", "grep", '{"pattern": ' + "[" * 200_000)
    assert asyncio.run(bench.toolbox.run(call)).is_error


# paths in results


def test_what_a_result_names_can_be_given_back(bench):
    bench.write({"d/e/f.txt": "needle\n"})
    os.symlink("d", bench.root / "link")
    (bench.skill / "refs").mkdir()
    (bench.skill / "refs" / "a.md").write_text("needle\n")
    for top in ("d", "d/e", "./d/", "link/e", str(bench.root / "d"), "skill:notes", "skill:notes/refs/."):
        for recursive in (False, True):
            for name in bench.text("file_list", path=top, recursive=recursive).splitlines():
                bench.text("file_list" if name.endswith("/") else "file_read", path=name)
        place = bench.text("grep", pattern="needle", path=top).rsplit(":", 2)[0]
        assert bench.text("file_read", path=place) == "1\tneedle"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_odd_names_forge_no_line_and_can_be_sent(bench):
    for name in (b"a\nb", b"c\x1b[31m", b"caf\xe9", "d\u2028e".encode()):
        with open(os.path.join(os.fsencode(bench.root), name), "w") as file:
            file.write("needle\n")
    assert bench.text("file_list").split("\n") == ["a\ufffdb", "c\ufffd[31m", "caf\ufffd", "d\ufffde"]
    assert len(bench.text("file_list", recursive=True).splitlines()) == 4
    assert len(bench.text("grep", pattern="needle").splitlines()) == 4


@given(st.text(st.characters(exclude_categories=())))
def test_every_result_can_be_encoded(text):
    from halo.tools.base import brief, encodable, visible

    for made in (brief(text), encodable(text), visible(text)):
        made.encode()
    assert len(visible(text).splitlines()) <= 1
    assert json.dumps(encodable(text))


@pytest.mark.parametrize("scheme", ["http", "ftp", "file"])
def test_a_schema_that_refers_elsewhere_fetches_nothing(scheme, tmp_path):
    """Whoever wrote it must not learn that a tool is called, nor choose what is read to check it."""
    (tmp_path / "schema.json").write_text("{}")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        port = server.getsockname()[1]
        where = (
            f"file://{tmp_path}/schema.json"
            if scheme == "file"
            else f"{scheme}://127.0.0.1:{port}/schema.json"
        )
        spec = ToolSpec("odd", "Odd.", {"type": "object", "properties": {"x": {"$ref": where}}})
        with pytest.raises(ToolFailure, match="not part of it"):
            check_arguments(spec, '{"x": 1}')
        with pytest.raises(BlockingIOError):
            server.accept()
