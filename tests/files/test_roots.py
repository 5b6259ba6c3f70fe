"""A confined root: nothing opened through it lies outside it."""

import os
import socket
import sys
import threading

import pytest

from halo.errors import TreeError
from halo.files import walk
from halo.files.roots import ConfinedRoot

needs_posix = pytest.mark.skipif(os.name == "nt", reason="no FIFOs and no dir_fd on Windows")


@pytest.fixture(params=["dir_fd", "realpath"])
def place(request, tmp_path, monkeypatch):
    """A root `in/` with files and links beside a secret outside, by both ways of confinement."""
    if request.param == "realpath":
        monkeypatch.setattr(walk, "HAS_DIR_FD", False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_bytes(b"secret")
    root = tmp_path / "in"
    (root / "a" / "b").mkdir(parents=True)
    (root / "f").write_bytes(b"f")
    (root / "a" / "g").write_bytes(b"g")
    for link, target in {
        "to_file": "a/g",
        "to_dir": "a",
        "a/b/up": "../../f",
        "a/b/far_up": "../../../in/f",
        "chain": "to_dir/b/up",
        "absolute_in": str(root / "a" / "g"),
        "absolute_out": str(tmp_path / "out" / "secret"),
        "absolute_sly": str(root) + "/../out/secret",
        "absolute_like": str(root) + "side",
        "out": "../out",
        "dangling": "nothing/here",
        "loop": "loop",
        "ring": "a/ring",
        "a/ring": "../ring",
    }.items():
        os.symlink(target, root / link)
    return root


def listed(root, rel):
    return [(name, kind) for name, kind, _ in root.entries(rel)]


def read(root, rel):
    fd = root.open(rel)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("rel", "data", "real"),
    [
        ("f", b"f", "f"),
        ("./a//g", b"g", "a/g"),
        ("a/../f", b"f", "f"),
        ("to_file", b"g", "a/g"),
        ("to_dir/g", b"g", "a/g"),
        ("to_dir/b/../g", b"g", "a/g"),
        ("a/b/up", b"f", "f"),
        ("chain", b"f", "f"),
        ("absolute_in", b"g", "a/g"),
    ],
)
def test_paths_and_links_inside_are_followed(place, rel, data, real):
    root = ConfinedRoot(str(place))
    assert read(root, rel) == data
    assert root.resolve(rel) == real
    assert root.stat(rel).st_ino == os.stat(place / real).st_ino
    assert root.kind(rel) == "file"


@pytest.mark.parametrize(
    "rel",
    [
        "..",
        "../out/secret",
        "a/../../out/secret",
        "to_dir/../..",
        "out/secret",
        "absolute_out",
        "absolute_sly",
        "absolute_like",
        "loop",
        "ring",
    ],
)
def test_what_leads_outside_or_in_circles_is_refused(place, rel):
    root = ConfinedRoot(str(place))
    for action in (root.open, root.stat, root.entries, root.resolve):
        with pytest.raises(TreeError) as caught:
            action(rel)
        assert caught.value.hint
    assert root.kind(rel) == "other"


@pytest.mark.parametrize("rel", ["/f", "a\\g", "f\0", "C:\\f"])
def test_spellings_that_mean_different_things_on_different_systems_are_refused(place, rel):
    with pytest.raises(TreeError, match="relative path"):
        ConfinedRoot(str(place)).open(rel)


def test_a_link_may_not_climb_above_the_root_even_if_it_comes_back(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f").write_bytes(b"f")
    os.symlink("../in/f", tmp_path / "in" / "link")
    if walk.HAS_DIR_FD:
        with pytest.raises(TreeError, match="leaves"):
            ConfinedRoot(str(tmp_path / "in")).open("link")


def test_what_is_absent_is_told_from_what_dangles(place):
    root = ConfinedRoot(str(place))
    for rel in ("nothing", "a/nothing", "f/below", "dangling/below", "x" * 300):
        assert root.kind(rel) == "absent"
        with pytest.raises(OSError):  # noqa: PT011  # ENOENT, ENOTDIR or ENAMETOOLONG, as the system says
            root.open(rel)
    assert root.kind("dangling") == "other"
    assert ConfinedRoot(str(place / "missing")).kind("") == "absent"
    with pytest.raises(FileNotFoundError):
        root.stat("dangling")


def test_a_listing_says_what_links_lead_to(place):
    root = ConfinedRoot(str(place))
    assert dict(listed(root, "")) == {
        "a": "dir",
        "f": "file",
        "to_file": "file",
        "to_dir": "dir",
        "chain": "file",
        "absolute_in": "file",
    } | dict.fromkeys(
        ["absolute_out", "absolute_sly", "absolute_like", "out", "dangling", "loop", "ring"], "other"
    )
    assert sorted(listed(root, "to_dir")) == sorted(listed(root, "a"))
    assert all(root.kind(name) == kind for name, kind in listed(root, ""))
    with pytest.raises(NotADirectoryError):
        root.entries("f")


def test_files_can_be_made_inside_only(place):
    root = ConfinedRoot(str(place))
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.close(root.open("to_dir/new", write, 0o600))
    assert (place / "a" / "new").exists()
    with pytest.raises(TreeError):
        root.open("out/new", write)
    with pytest.raises(FileExistsError):
        root.open("f", write | os.O_EXCL)
    os.symlink(str(place.parent / "out" / "made"), place / "trap")
    with pytest.raises(TreeError):
        root.open("trap", write)
    assert os.listdir(place.parent / "out") == ["secret"]


@needs_posix
def test_fifos_sockets_and_devices_neither_block_nor_open(place, monkeypatch):
    root = ConfinedRoot(str(place))
    os.mkfifo(place / "fifo")
    monkeypatch.chdir(place)  # the path of a socket may be no longer than some 100 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for rel in ("fifo", "socket"):
            for flags in (os.O_RDONLY, os.O_WRONLY):
                with pytest.raises(TreeError, match="neither a regular file"):
                    root.open(rel, flags)
            assert root.kind(rel) == "other"
    with pytest.raises(TreeError, match="neither a regular file"):
        ConfinedRoot("/dev").open("null")


@needs_posix
def test_a_directory_that_turns_into_a_link_while_it_is_read_does_not_lead_outside(place):
    if not walk.HAS_DIR_FD:
        pytest.skip("realpath can be raced, as the module says")
    root = ConfinedRoot(str(place))
    (place / "d").mkdir()
    (place / "d" / "secret").write_bytes(b"public")
    os.symlink("../out", place / "d_link")
    done = threading.Event()

    def swap():
        while not done.is_set():
            os.rename(place / "d", place / "d_dir")
            os.rename(place / "d_link", place / "d")
            os.rename(place / "d", place / "d_link")
            os.rename(place / "d_dir", place / "d")

    seen = set()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(4000):
            try:
                seen.add(read(root, "d/secret"))
            except (TreeError, FileNotFoundError) as error:
                seen.add(type(error).__name__)
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert b"public" in seen
    assert b"secret" not in seen


@needs_posix
def test_no_descriptor_is_left_open(place):
    root = ConfinedRoot(str(place))
    before = os.open(place, os.O_RDONLY)
    os.close(before)
    for rel in ("a/b/up", "out/secret", "loop", "nothing/x", "chain", "a/b/../..", ""):
        for action in (root.stat, root.entries, root.kind):
            try:
                action(rel)
            except (OSError, TreeError):
                continue
    after = os.open(place, os.O_RDONLY)
    os.close(after)
    assert after == before
