"""One bad entry below the named folder costs only itself; a bad top is the answer."""

import errno
import inspect
import os
import socket
import sys
from functools import partial

import pytest

from halo.tools import walking

NOTE = "1 entry could not be read"


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO, errno.EMFILE, errno.ESTALE]
)
def test_a_file_that_cannot_be_read_is_skipped_and_counted(bench, broken, number):
    """Unreadable, or gone since the folder was listed, or on a disk that fails."""
    bench.write({"a.txt": "needle\n", "b.txt": "needle\n", "d/c.txt": "needle\n"})
    broken("b.txt", number)
    assert bench.text("grep", pattern="needle") == f"a.txt:1:needle\nd/c.txt:1:needle\n{NOTE}"
    assert bench.text("grep", pattern="absent") == f"no match for 'absent'\n{NOTE}"
    assert bench.text("grep", pattern="needle", include="c.*") == "d/c.txt:1:needle"
    assert bench.text("file_list", recursive=True).splitlines() == ["a.txt", "b.txt", "d/", "d/c.txt"]


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EIO])
def test_a_folder_that_cannot_be_read_is_named_and_counted(bench, broken, number):
    bench.write({"a/x.txt": "needle\n", "b/x.txt": "needle\n", "c/d/x.txt": "needle\n", "e": "needle\n"})
    broken("b", number)
    broken("c/d", number)
    note = "2 entries could not be read"
    assert bench.text("grep", pattern="needle").splitlines() == ["a/x.txt:1:needle", "e:1:needle", note]
    listed = bench.text("file_list", recursive=True).splitlines()
    assert listed == ["a/", "a/x.txt", "b/", "c/", "c/d/", "e", note]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not stop root, nor Windows")
def test_permissions_of_the_system(bench):
    bench.write({"a.txt": "needle\n", "b.txt": "needle\n", "d/c.txt": "needle\n"})
    os.chmod(bench.root / "b.txt", 0)
    os.chmod(bench.root / "d", 0)
    try:
        assert bench.text("grep", pattern="needle") == "a.txt:1:needle\n2 entries could not be read"
        assert bench.refusal("file_read", path="b.txt") == "b.txt may not be read"
    finally:
        os.chmod(bench.root / "d", 0o700)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_what_is_no_file_is_skipped_and_counted(bench):
    bench.write({"a.txt": "needle\n"})
    os.mkfifo(bench.root / "fifo")
    os.symlink("nowhere", bench.root / "dangling")
    os.symlink(bench.secret, bench.root / "out")
    os.symlink("circle", bench.root / "circle")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(bench.root)  # the name of a socket is short
        try:
            one.bind("socket")
        finally:
            os.chdir(here)
    assert bench.text("grep", pattern="needle") == "a.txt:1:needle\n5 entries could not be read"
    names = ["a.txt", "circle", "dangling", "fifo", "out", "socket"]
    assert bench.text("file_list", recursive=True).splitlines() == names


def test_a_file_that_vanishes_during_the_walk(bench, monkeypatch):
    bench.write({"a/x": "needle\n", "b/x": "needle\n", "c/x": "needle\n"})
    listed = walking.list_folder

    def and_remove(place):
        entries = listed(place)
        if place.relative == "a":
            (bench.root / "b" / "x").unlink()
            (bench.root / "b").rmdir()
        return entries

    monkeypatch.setattr(walking, "list_folder", and_remove)
    assert bench.text("grep", pattern="needle") == f"a/x:1:needle\nc/x:1:needle\n{NOTE}"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "may not be read"),
        (errno.ENOENT, "does not exist"),
        (errno.EIO, "cannot be read: "),
        (errno.EMFILE, "cannot be read: "),
    ],
)
def test_the_named_top_is_an_error(bench, broken, number, said):
    bench.write({"d/x.txt": "needle\n", "a.txt": "needle\n"})
    broken("d", number)
    broken("a.txt", number)
    for call in (
        partial(bench.refusal, "grep", pattern="needle", path="d"),
        partial(bench.refusal, "grep", pattern="needle", path="a.txt"),
        partial(bench.refusal, "file_list", path="d"),
        partial(bench.refusal, "file_list", path="d", recursive=True),
        partial(bench.refusal, "file_read", path="a.txt"),
    ):
        assert said in call()
        assert len(call().splitlines()) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_top_that_is_no_file_is_an_error(bench):
    os.mkfifo(bench.root / "fifo")
    os.symlink(bench.secret, bench.root / "out")
    os.symlink("nowhere", bench.root / "dangling")
    for tool, more in (("file_read", {}), ("grep", {"pattern": "x"})):
        assert "neither a regular file" in bench.refusal(tool, path="fifo", **more)
        assert "leaves its root" in bench.refusal(tool, path="out", **more)
        assert "does not exist" in bench.refusal(tool, path="dangling", **more)
        assert "does not exist" in bench.refusal(tool, path="absent", **more)


def test_folders_nested_deeper_than_the_stack(bench):
    """The walk is no recursion."""
    bench.write({"d/" * 150 + "x": "needle\n"})
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 60)
    try:
        found, listed = bench.text("grep", pattern="needle"), bench.text("file_list", recursive=True)
    finally:
        sys.setrecursionlimit(limit)
    assert found.endswith("/d/x:1:needle")
    assert len(listed.splitlines()) == 151
