"""Writing below a confined root: whole or not at all, inside or not at all."""

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pytest
from crash import every_crash, recording, replay
from hypothesis import given, settings
from hypothesis import strategies as st
from making import examples
from moments import exchange, interrupted, moments

from halo.errors import TreeError
from halo.files import ops, walk
from halo.files.roots import ConfinedRoot
from halo.tools.sandbox.memory import MemoryFiles

needs_posix = pytest.mark.skipif(os.name == "nt", reason="no FIFOs, modes and dir_fd on Windows")
not_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not stop root")


@pytest.fixture(params=["dir_fd", "realpath"])
def root(request, tmp_path, monkeypatch):
    """A root `in/` beside a folder `out/`, by both ways of confinement."""
    if request.param == "realpath":
        monkeypatch.setattr(walk, "HAS_DIR_FD", False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_bytes(b"secret")
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "f").write_bytes(b"old")
    return ConfinedRoot(str(tmp_path / "in"))


def below(path):
    """Everything below a folder: files with their bytes, folders and links as such."""
    found = {}
    for entry in sorted(Path(path).rglob("*")):
        name = entry.relative_to(path).as_posix()
        found[name] = "link" if entry.is_symlink() else "dir" if entry.is_dir() else entry.read_bytes()
    return found


def outside(root):
    return below(os.path.join(root.path, "..", "out"))


# What is written


def test_a_file_is_made_with_its_folders_or_replaced(root):
    root.write("new", b"1")
    root.write("b/./c//d", b"2")
    root.write("a/f", b"")
    root.write("a/../a/g", b"3")
    assert below(root.path) == {
        "a": "dir", "a/f": b"", "a/g": b"3", "b": "dir", "b/c": "dir", "b/c/d": b"2", "new": b"1",
    }  # fmt: skip


def test_a_link_inside_is_followed_and_stays_a_link(root):
    for link, target in {"to_file": "a/f", "to_dir": "a", "to_new": "a/made/new", "chain": "to_file"}.items():
        os.symlink(target, f"{root.path}/{link}")
    os.symlink(f"{root.path}/a/absolute", f"{root.path}/absolute")
    root.write("chain", b"1")
    root.write("to_dir/g", b"2")
    root.write("to_new", b"3")
    root.write("absolute", b"4")
    found = below(root.path)
    assert {name for name, what in found.items() if what == "link"} == {
        "to_file", "to_dir", "to_new", "chain", "absolute",
    }  # fmt: skip
    assert found["a/f"] == b"1"
    assert found["a/g"] == b"2"
    assert found["a/made/new"] == b"3"
    assert found["a/absolute"] == b"4"


def test_another_name_of_the_same_file_keeps_the_old_text(root):
    """Who hard-links a file from elsewhere into the workspace has it not changed there."""
    os.link(f"{root.path}/../out/secret", f"{root.path}/hard")
    root.write("hard", b"new")
    assert below(root.path)["hard"] == b"new"
    assert outside(root) == {"secret": b"secret"}


@needs_posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o666, 0o640])
def test_the_mode_of_a_file_is_kept(root, mode):
    os.chmod(f"{root.path}/a/f", mode)
    root.write("a/f", b"new")
    assert stat.S_IMODE(os.stat(f"{root.path}/a/f").st_mode) == mode


@needs_posix
def test_set_id_bits_are_not_given_to_new_text(root):
    os.chmod(f"{root.path}/a/f", 0o6755)
    root.write("a/f", b"new")
    assert stat.S_IMODE(os.stat(f"{root.path}/a/f").st_mode) == 0o755


@needs_posix
def test_a_new_file_has_the_mode_of_the_umask(root):
    old = os.umask(0o027)
    try:
        root.write("b/new", b"")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(f"{root.path}/b/new").st_mode) == 0o640
    assert stat.S_IMODE(os.stat(f"{root.path}/b").st_mode) == 0o750


@needs_posix
def test_what_was_private_is_private_from_the_first_moment(root, monkeypatch):
    os.chmod(f"{root.path}/a/f", 0o600)
    seen = []
    write_all = ops.write_all

    def looking(fd, path, data):
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        write_all(fd, path, data)

    monkeypatch.setattr(ops, "write_all", looking)
    root.write("a/f", b"secret")
    assert seen == [0o600]


# What is refused


@pytest.mark.parametrize("rel", ["", ".", "a", "a/", "a/.", "a/..", "a/b/.."])
def test_a_folder_is_no_file(root, rel):
    os.makedirs(f"{root.path}/a/b", exist_ok=True)
    with pytest.raises(IsADirectoryError):
        root.write(rel, b"x")


def test_a_file_is_no_folder(root):
    for rel in ("a/f/g", "a/f/g/h", "a/f/../g"):
        if rel.endswith("../g") and not walk.HAS_DIR_FD:
            continue  # realpath takes `..` as text
        with pytest.raises(OSError) as caught:  # noqa: PT011  # the number is looked at below
            root.write(rel, b"x")
        assert caught.value.errno in (errno.ENOTDIR, errno.EEXIST)
    assert below(root.path) == {"a": "dir", "a/f": b"old"}


@pytest.mark.parametrize("rel", ["x" * 256, "new/" + "x" * 256, "x" * 256 + "/f", "new/" + "é" * 128 + "/f"])
def test_a_name_that_is_too_long_makes_no_folder(root, rel):
    with pytest.raises(OSError) as caught:  # noqa: PT011  # the number is looked at below
        root.write(rel, b"x")
    assert caught.value.errno == errno.ENAMETOOLONG
    assert below(root.path) == {"a": "dir", "a/f": b"old"}


def test_the_longest_name_can_be_written(root):
    root.write("é" * 127 + "x", b"1")
    root.write("é" * 127 + "x", b"2")
    assert below(root.path)["é" * 127 + "x"] == b"2"


@pytest.mark.parametrize("rel", ["..", "../new", "../out/secret", "a/../../out/secret", "a/../../in/a/f"])
def test_nothing_above_the_root_can_be_named(root, rel):
    if rel == "a/../../in/a/f" and not walk.HAS_DIR_FD:
        pytest.skip("realpath sees where it ends: inside")
    with pytest.raises(TreeError, match="leaves"):
        root.write(rel, b"x")
    assert outside(root) == {"secret": b"secret"}


@pytest.mark.parametrize("rel", ["/f", "a\\g", "f\0", f"{os.sep}tmp{os.sep}f"])
def test_spellings_that_mean_different_things_on_different_systems_are_refused(root, rel):
    with pytest.raises(TreeError, match="relative path"):
        root.write(rel, b"x")


@pytest.mark.parametrize(
    ("link", "target", "rel"),
    [
        ("l", "../out/secret", "l"),
        ("l", "../out/made", "l"),
        ("l", "../out", "l/secret"),
        ("l", "../out", "l/made/deep/file"),
        ("l", "..", "l/out/secret"),
        ("l", "/proc/self/cwd", "l/made"),
        ("l", "/proc/self/root", "l/tmp/made"),
        ("l", "l", "l"),
        ("l", "l/x", "l/y"),
    ],
)
def test_links_that_leave_or_go_in_circles_lead_nowhere(root, link, target, rel):
    os.symlink(target, f"{root.path}/{link}")
    with pytest.raises(TreeError):
        root.write(rel, b"x")
    assert outside(root) == {"secret": b"secret"}
    assert below(root.path) == {"a": "dir", "a/f": b"old", "l": "link"}


@needs_posix
def test_fifos_sockets_and_devices_are_no_files(root, monkeypatch):
    os.mkfifo(f"{root.path}/fifo")
    monkeypatch.chdir(root.path)  # the path of a socket may be no longer than some 100 bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for rel in ("fifo", "socket"):
            with pytest.raises(TreeError, match="neither a regular file"):
                root.write(rel, b"x")
            assert not stat.S_ISREG(os.lstat(f"{root.path}/{rel}").st_mode)
    with pytest.raises(TreeError, match="neither a regular file"):
        ConfinedRoot("/dev").write("null", b"x")


@not_root
def test_permissions_of_the_system(root):
    """A file that may not be written is not replaced either, though its folder would allow it."""
    os.chmod(f"{root.path}/a/f", 0o444)
    with pytest.raises(PermissionError):
        root.write("a/f", b"x")
    os.chmod(f"{root.path}/a", 0o555)
    try:
        with pytest.raises(PermissionError):
            root.write("a/new", b"x")
        with pytest.raises(PermissionError):
            root.write("a/b/new", b"x")
    finally:
        os.chmod(f"{root.path}/a", 0o755)
    assert below(root.path) == {"a": "dir", "a/f": b"old"}


@needs_posix
@pytest.mark.skipif(os.name != "nt" and os.geteuid() != 0, reason="only root can become somebody else")
def test_permissions_of_the_system_for_somebody_else(root):
    """The same as root, in a process that is nobody."""
    for folder in [Path(root.path), *Path(root.path).parents]:
        if folder.stat().st_uid == 0 and Path(tempfile.gettempdir()) in folder.parents:
            os.chmod(folder, 0o755)  # pytest's own are closed to others
    os.chown(root.path, 65534, 65534)
    os.chmod(f"{root.path}/a/f", 0o644)
    script = (
        "import os, sys\n"
        "from halo.files.rewriting import rewrite\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "for rel in ('a/f', 'a/new', 'a/b/new'):\n"
        "    try:\n"
        "        rewrite(sys.argv[1], rel, b'x')\n"
        "    except PermissionError as error:\n"
        "        print(error.errno)\n"
        "rewrite(sys.argv[1], 'mine', b'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, root.path], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == ([str(errno.EACCES)] * 3, "")
    assert below(root.path) == {"a": "dir", "a/f": b"old", "mine": b"x"}


# Who admits


def test_where_something_would_stand_is_told_without_writing(root):
    for link, target in {"l": "a", "f": "a/f", "far": "a/new/x", "near": "new", "out": "../out/new"}.items():
        os.symlink(target, f"{root.path}/{link}")
    before = below(root.path)
    for rel, real in {
        "a/f": "a/f",
        "l/f": "a/f",
        "f": "a/f",
        "l": "a",
        "far": "a/new/x",
        "near": "new",
        "l/b/c": "a/b/c",
        "new/b": "new/b",
        "": "",
    }.items():
        assert root.destination(rel) == real
    for rel in ("out", ".."):
        with pytest.raises(TreeError):
            root.destination(rel)
    assert below(root.path) == before


def test_who_admits_gets_the_real_path_and_keeps_folders_from_being_made(root):
    os.symlink("a", f"{root.path}/l")
    asked = []

    def refuse(real):
        asked.append(real)
        raise PermissionError(real)

    for rel, real in {
        "l/f": "a/f",
        "l/new": "a/new",
        "l/../a/f": "a/f",
        "l/b/c/d": "a/b/c/d",
        "x/y/z": "x/y/z",
    }.items():
        with pytest.raises(PermissionError):
            root.write(rel, b"x", refuse)
        assert asked == [real]
        asked.clear()
    assert below(root.path) == {"a": "dir", "a/f": b"old", "l": "link"}


# Crashes


@pytest.mark.parametrize(
    ("failing", "rel"),
    [("mkdir", "b/new"), *product(["create", "write", "fsync", "rename"], ["a/f", "a/new", "b/new"])],
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_fails(root, monkeypatch, failing, error, rel):
    def fail(*_):
        raise error

    monkeypatch.setattr(ops, failing, fail)
    with pytest.raises(type(error)):
        root.write(rel, b"new")
    left = below(root.path)
    assert left.pop("b", "dir") == "dir"
    assert left == {"a": "dir", "a/f": b"old"}


@pytest.mark.parametrize("rel", ["a/f", "a/new", "b/c/new"])
def test_after_a_crash_the_name_has_the_old_text_or_the_new_one(root, tmp_path, rel):
    with recording() as recorded:
        root.write(rel, b"new")
    outcomes = set()
    for at, (upto, lost) in enumerate(every_crash(recorded)):
        into = tmp_path / f"crash{at}"
        into.mkdir()
        replay(recorded[:upto], root.path, str(into), initial={"a/f": b"old"}, **lost)
        left = below(into)
        assert left["a/f"] in ({b"old", b"new"} if rel == "a/f" else {b"old"})
        outcomes.add(left.get(rel))
    assert outcomes == {b"new", b"old" if rel == "a/f" else None}


def test_readers_see_a_whole_text(root):
    texts = [letter * 200_000 for letter in (b"a", b"b")]
    root.write("f", texts[0])
    done, seen = threading.Event(), set()

    def read():
        while not done.is_set():
            seen.add(root.read("f", 1_000_000))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for turn in range(200):
            root.write("f", texts[turn % 2])
    finally:
        done.set()
        thread.join()
    assert seen <= set(texts)


# Races


@contextmanager
def racing(*steps):
    """Run steps again and again in a thread, as fast as it goes."""
    done = threading.Event()

    def run():
        while not done.is_set():
            for step in steps:
                step()
            time.sleep(1e-5)  # else both threads may go in step, and one sees the same state for ever

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def renames(folder, *names):
    """Return the steps `names[0]` to `names[1]` and so on, with what is missing left alone."""

    def step(old, new):
        def rename():
            with suppress(OSError):
                os.rename(f"{folder}/{old}", f"{folder}/{new}")

        return rename

    return [step(*pair) for pair in names]


@needs_posix
@pytest.mark.parametrize("root", ["dir_fd"], indirect=True)
@pytest.mark.parametrize("rel", ["d/secret", "d/new", "d/deep/new"])
def test_a_folder_that_turns_into_a_link_leads_nowhere(root, rel):
    os.mkdir(f"{root.path}/d")
    os.symlink("../out", f"{root.path}/link")
    written = 0
    swaps = renames(root.path, ("d", "kept"), ("link", "d"), ("d", "link"), ("kept", "d"))
    with racing(*swaps):
        for turn in range(400):
            try:
                root.write(rel, b"%d" % turn)
                written += 1
            except (TreeError, OSError):
                continue
    assert written
    assert outside(root) == {"secret": b"secret"}


@needs_posix
@pytest.mark.parametrize("root", ["dir_fd"], indirect=True)
def test_a_file_that_turns_into_a_link_is_replaced_or_refused(root):
    os.symlink("../out/secret", f"{root.path}/link")
    root.write("f", b"")
    written = 0
    swaps = renames(root.path, ("f", "kept"), ("link", "f"), ("f", "link"), ("kept", "f"))
    with racing(*swaps):
        for turn in range(400):
            try:
                root.write("f", b"%d" % turn)
                written += 1
            except (TreeError, OSError):
                continue
    assert written
    assert outside(root) == {"secret": b"secret"}
    assert not [name for name in os.listdir(root.path) if name.endswith(".tmp")]


@needs_posix
@pytest.mark.parametrize("root", ["dir_fd"], indirect=True)
def test_what_is_made_in_the_place_of_a_missing_folder_leads_nowhere(root):
    """The folder is not there, and while it is made somebody puts a link in its place."""

    def link():
        with suppress(OSError):
            os.symlink("../out", f"{root.path}/d")

    def unlink():
        for remove in (os.unlink, os.rmdir):
            with suppress(OSError):
                remove(f"{root.path}/d")

    with racing(link, unlink):
        for turn in range(400):
            try:
                root.write("d/made", b"%d" % turn)
                os.unlink(f"{root.path}/d/made")
            except (TreeError, OSError):
                continue
    assert outside(root) == {"secret": b"secret"}


@needs_posix
@pytest.mark.parametrize("root", ["dir_fd"], indirect=True)
def test_who_admits_is_asked_about_what_is_written(root):
    """A link swaps between a free folder and a protected one; the real path decides, not the name."""
    for folder in ("free", "kept"):
        os.mkdir(f"{root.path}/{folder}")
    os.symlink("free", f"{root.path}/l")
    os.symlink("kept", f"{root.path}/l2")

    def admit(real):
        if real.startswith("kept"):
            raise PermissionError(real)

    swaps = renames(root.path, ("l", "l3"), ("l2", "l"), ("l", "l2"), ("l3", "l"))
    written = 0
    with racing(*swaps):
        for turn in range(400):
            try:
                root.write("l/f", b"%d" % turn, admit)
                written += 1
            except (TreeError, OSError):
                continue
    assert written
    assert os.listdir(f"{root.path}/kept") == []


@needs_posix
def test_no_descriptor_is_left_open(root):
    os.symlink("../out", f"{root.path}/l")
    before = os.dup(0)
    os.close(before)
    for rel in ("a/f", "b/c/d", "l/x", "", "..", "x" * 300, "a/f/x"):
        try:
            root.write(rel, b"x")
        except (TreeError, OSError):
            continue
    after = os.dup(0)
    os.close(after)
    assert after == before


@needs_posix
@pytest.mark.parametrize("root", ["dir_fd"], indirect=True)
@pytest.mark.parametrize(
    ("rel", "link"),
    [("d/secret", "../out"), ("d/new", "../out"), ("d/deep/new", "../out"), ("d/f", "kept"), ("d/a/b", "kept"),
     ("f", "../out/secret"), ("f", "kept/f"), ("f", "../out/new")],
)  # fmt: skip
def test_at_every_moment(root, rel, link):
    """What is written is a link when it is looked at, opened or renamed, and none a moment later, or before."""
    for folder in ("d", "kept"):
        os.mkdir(f"{root.path}/{folder}")
    for file in ("f", "kept/f"):
        Path(f"{root.path}/{file}").write_bytes(b"old")
    os.symlink(link, f"{root.path}/link")
    swap = exchange(root.path, rel.partition("/")[0], "link")
    written = []

    def admit(real):
        if real.startswith("kept"):
            raise PermissionError(real)

    def act():
        try:
            root.write(rel, b"new", admit)
            written.append(rel)
        except (TreeError, OSError):
            pass

    def settle(begun_as_link):
        if os.path.islink(f"{root.path}/{rel.partition('/')[0]}") != begun_as_link:
            swap()
        assert outside(root) == {"secret": b"secret"}
        assert below(f"{root.path}/kept") == {"f": b"old"}

    calls = interrupted(act, {})
    assert written
    for begun_as_link in (False, True):
        settle(not begun_as_link)
        swap()
        for there, back in moments(calls + 4):
            interrupted(act, {there: swap, back: swap})
            settle(begun_as_link)


# In memory and on disk: one contract

PARTS = st.sampled_from(["a", "b", "c", ".", "..", "", "é", "x" * 255, "x" * 256, "a\\b", "n\0"])
PATHS = st.one_of(st.lists(PARTS, max_size=5).map("/".join), st.sampled_from(["/a", "a/" * 501 + "f"]))
ACTIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.binary(max_size=6), st.sampled_from(["", "a", "b/c"])),
    st.tuples(st.just("read"), PATHS, st.integers(0, 8), st.sampled_from(["", "a", "b/c"])),
    st.tuples(st.sampled_from(["entries"]), PATHS, st.sampled_from(["", "a"])),
    st.tuples(st.sampled_from(["kind", "resolve", "destination"]), PATHS),
)


def done(files, action, *arguments):
    """Return what an action comes to: its result or its error, and what it asked to be admitted."""
    asked = []

    def admit(real):
        asked.append(real)
        if real == refused:
            raise PermissionError(errno.EACCES, "refused")

    try:
        if action in ("kind", "resolve", "destination"):
            return getattr(files, action)(*arguments)
        *arguments, refused = arguments
        result = getattr(files, action)(*arguments, admit)
        return (sorted(result) if action == "entries" else result), asked
    except TreeError as error:
        return type(error).__name__, error.message, asked
    except OSError as error:
        return errno.errorcode[error.errno], asked


@needs_posix
@settings(max_examples=examples(50))
@given(st.lists(ACTIONS, max_size=12))
def test_files_in_memory_and_on_disk_are_the_same_to_tools(tmp_path_factory, actions):
    folder = tmp_path_factory.mktemp("files")
    disk, memory = ConfinedRoot(str(folder)), MemoryFiles()
    for action in actions:
        assert done(memory, *action) == done(disk, *action), action
    on_disk = {name: data for name, data in below(folder).items() if isinstance(data, bytes)}
    assert memory.files == on_disk
