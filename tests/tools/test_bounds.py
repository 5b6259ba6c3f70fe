"""A pattern that a model wrote ends: in time, in memory, and with an answer."""

import os
import subprocess
import sys
import time

import pytest

from halo.tools import grep, search

DEEP = "(" * 450 + ")" * 450
SLOW = r"^(\w|\w\w)+$"


@pytest.fixture
def seconds(monkeypatch):
    monkeypatch.setattr(grep, "_SECONDS", 1.0)


@pytest.fixture
def children(monkeypatch):
    """Every process that a search started."""
    started = []
    popen = subprocess.Popen

    class Kept(popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(search.subprocess, "Popen", Kept)
    yield started
    assert all(child.returncode is not None for child in started), "a child is left"


def test_a_pattern_has_a_length(bench):
    bench.write({"a": "x\n"})
    assert bench.text("grep", pattern="x" * 1000).startswith("no match")
    assert bench.refusal("grep", pattern="(" * 2000 + ")" * 2000) == (
        "the pattern has 4000 characters; 1000 are possible"
    )


def test_a_pattern_that_is_nested_too_deeply(bench, children):
    bench.write({"a": "x\n"})
    assert bench.refusal("grep", pattern=DEEP) == (
        "the pattern was given up because it is nested too deeply; simplify it"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces a limit of memory")
def test_a_pattern_that_takes_all_memory(bench, children):
    bench.write({"a": "x\n", "b": "x\n"})
    for pattern in ("(?:(?:a{1000}){1000}){1000}", "(?:(?:(?:ab?c){999}){999}){999}"):
        assert "too much memory" in bench.refusal("grep", pattern=pattern)
    text = bench.text("grep", pattern="x|(?R)")
    assert text.startswith("a:1:x")
    assert "was stopped because it needs too much memory" in bench.text("grep", pattern="(?R)")


def test_one_deadline_for_the_call_and_what_was_found_is_kept(bench, seconds, children):
    slow = "a" * 60 + "!\n"
    bench.write({"a.txt": "aaa\n" + slow * 100, "b.txt": slow * 100})
    start = time.monotonic()
    text = bench.text("grep", pattern=SLOW)
    assert time.monotonic() - start < 8
    assert text.splitlines() == [
        "a.txt:1:aaa",
        ("the search was stopped after 1 seconds, in a.txt; simplify the pattern or search a smaller part"),
    ]
    assert len(children) == 1


def test_a_stop_without_a_match_says_both(bench, seconds, children):
    bench.write({"d/a.txt": "a" * 60 + "!\n"})
    first, second = bench.text("grep", pattern=SLOW).splitlines()
    assert first.startswith("no match for")
    assert "was stopped after 1 seconds, in d/a.txt" in second


def test_the_walk_is_under_the_deadline(bench, monkeypatch, children):
    """Also where no file is wanted, and so none is searched."""
    bench.write({f"{n}.txt": "x\n" for n in range(50)})
    monkeypatch.setattr(grep, "_SECONDS", 0.5)
    listed = grep.Walk.__iter__

    def slowly(self):
        for entry in listed(self):
            time.sleep(0.1)
            yield entry

    monkeypatch.setattr(grep.Walk, "__iter__", slowly)
    text = bench.text("grep", pattern="x", include="*.py")
    assert "the search was stopped after 0.5 seconds" in text


def test_a_child_that_dies_is_an_answer(bench, children, monkeypatch):
    """The system may kill it when memory is short, on any system."""
    bench.write({"a": "x\n", "b": "x\n"})
    matches = search.Search.matches

    def killed(self, data, most):
        yield from matches(self, data, most)
        self._process.kill()
        self._process.wait()

    monkeypatch.setattr(search.Search, "matches", killed)
    text = bench.text("grep", pattern="x")
    assert text.startswith("a:1:x\nthe search was stopped because its process died")


def test_a_child_that_does_not_start_is_said(bench, monkeypatch, tmp_path):
    bench.write({"a": "x\n"})
    monkeypatch.setattr(search, "_CHILD", str(tmp_path / "absent.py"))
    assert bench.refusal("grep", pattern="x") == (
        "internal error: RuntimeError: the process that searches did not start"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_left_open(bench, seconds, children):
    bench.write({"a": "a" * 60 + "!\n", "d/x": "x\n"})
    before = set(os.listdir("/proc/self/fd"))
    for pattern in ("x", "(", SLOW, DEEP):
        bench.call("grep", pattern=pattern)
    bench.call("file_read", path="d")
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_a_child_without_a_parent_ends(bench):
    """It has a limit of its own for the case that Halo is killed meanwhile."""
    code = (
        "import sys\nfrom halo.tools.search import Search\n"
        "with Search('x', 10) as s: print(s._process.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("include", ["{a,b}" * 30, "{a}" * 300, "*," * 400, "x" * 1001, "{" * 500])
def test_globs_are_bounded_too(bench, include):
    bench.write({"a": "x\n"})
    start = time.monotonic()
    assert bench.call("grep", pattern="x", include=include).text.count("\n") == 0
    assert time.monotonic() - start < 8


def test_globs_expand_in_order(bench):
    from halo.tools.globs import plain_globs

    assert plain_globs("*.{md,txt}, a{1,2}{x,y},b") == ["*.md", "*.txt", "a1x", "a1y", "a2x", "a2y", "b"]
    assert plain_globs("") == plain_globs(" , ") == []
    assert plain_globs("}a{") == ["}a{"]


@pytest.mark.parametrize(
    "pattern", ["(", "[", "*", "(?P<", r"\p{Nope}", "(?<=a)b{2,1}", "\ud800(", "(?P<n>a)(?P<n"]
)
def test_bad_patterns_are_answered(bench, pattern):
    bench.write({"a": "x\n"})
    assert bench.refusal("grep", pattern=pattern).startswith("not a regular expression: ")


def test_a_file_of_a_named_size_fits_the_memory(bench):
    """The largest file that is searched, as one line of wide characters."""
    bench.write({"a": "é" * 4_000_000 + "😀needle"})
    assert bench.text("grep", pattern="needle$").endswith("[4000007 characters]")
