"""Trees over disk, memory and changes: one behaviour."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import TreeError
from halo.files import tree_disk
from halo.files.roots import ConfinedRoot
from halo.files.stamps import stamp
from halo.files.tree import (
    UNREADABLE,
    DiskTree,
    Entry,
    Input,
    MemoryTree,
    NotFound,
    OverlayTree,
    RecordingTree,
    join,
    observe,
    problems_of,
    split,
)

NAMES = ["a", "b", "é"]
PATHS = [
    f"{x}/{y}/{z}".strip("/") for x in NAMES for y in ["", *NAMES] for z in (["", *NAMES] if y else [""])
]
UNIVERSE = ["workspace:", *(f"workspace:{path}" for path in sorted(set(PATHS)))]
BYTES = st.binary(max_size=3)


def below(path, directory):
    return path.startswith(directory if directory.endswith(":") else directory + "/")


def consistent(files):
    return {path: data for path, data in files.items() if not any(below(other, path) for other in files)}


FILES = st.dictionaries(st.sampled_from(UNIVERSE[1:]), BYTES, max_size=6).map(consistent)
CHANGES = st.builds(
    lambda written, deleted: {**dict.fromkeys(deleted - written.keys()), **written},
    FILES,
    st.sets(st.sampled_from(UNIVERSE[1:]), max_size=4),
)


def seen(tree, paths=UNIVERSE):
    """Everything that a reader can learn about `paths`."""

    def answer(method, path):
        try:
            return method(path)
        except TreeError as error:
            return type(error).__name__, error.message, error.file

    return {path: (tree.kind(path), answer(tree.list, path), answer(tree.read, path)) for path in paths}


def changed(files, changes):
    """The same changes, done to the mapping itself."""
    written = {path: data for path, data in changes.items() if data is not None}
    kept = {
        path: data
        for path, data in files.items()
        if not any(path == change or below(path, change) for change in changes)
        and not any(below(change, path) for change in written)
    }
    return kept | written


@given(FILES, CHANGES)
def test_an_overlay_is_the_tree_with_the_changes_made(files, changes):
    assert seen(OverlayTree(MemoryTree(files), changes)) == seen(MemoryTree(changed(files, changes)))


@given(FILES, CHANGES, CHANGES)
def test_overlays_may_be_stacked(files, first, second):
    stacked = OverlayTree(OverlayTree(MemoryTree(files), first), second)
    assert seen(stacked) == seen(MemoryTree(changed(changed(files, first), second)))


@given(FILES)
def test_a_disk_tree_is_the_memory_tree_of_its_files(tmp_path_factory, files):
    place = tmp_path_factory.mktemp("tree")
    for path, data in files.items():
        target = place / split(path)[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    # An empty root exists on disk and not in a mapping.
    paths = UNIVERSE if files else UNIVERSE[1:]
    assert seen(DiskTree({"workspace": str(place)}), paths) == seen(MemoryTree(files), paths)


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "d" / "empty").mkdir(parents=True)
    (tmp_path / "d" / "f").write_bytes(b"12345")
    return DiskTree({"workspace": str(tmp_path), "gone": str(tmp_path / "gone")})


def test_absent_files_and_roots_are_not_found(disk):
    for path in (
        "workspace:x",
        "workspace:d/f/x",
        "workspace:x/y",
        "gone:",
        "gone:x",
        "unknown:",
        "unknown:x",
    ):
        assert disk.kind(path) == "absent"
        assert disk.stamp(path) is None
        for method in (disk.read, disk.list):
            with pytest.raises(NotFound) as caught:
                method(path)
            assert caught.value.file == path


def test_what_is_no_file_or_no_directory_is_told_so(disk):
    with pytest.raises(TreeError, match="is a directory"):
        disk.read("workspace:d")
    with pytest.raises(TreeError, match="is not a directory"):
        disk.list("workspace:d/f")


@pytest.mark.parametrize("tree", ["disk", "memory", "overlay"])
def test_a_read_returns_all_or_refuses(disk, tree):
    path = "workspace:d/f"
    tree = {
        "disk": disk,
        "memory": MemoryTree({path: b"12345"}),
        "overlay": OverlayTree(MemoryTree({}), {path: b"12345"}),
    }[tree]
    assert tree.read(path, 5) == b"12345"
    with pytest.raises(TreeError, match="larger than the 4 bytes"):
        tree.read(path, 4)


def test_a_file_larger_than_a_block_is_read_whole(disk, tmp_path):
    data = bytes(range(256)) * 5000
    (tmp_path / "large").write_bytes(data)
    assert disk.read("workspace:large") == data


def test_a_file_that_changes_while_it_is_read_is_read_again(disk, tmp_path, monkeypatch):
    read_all = tree_disk._read_all
    writes = iter([b"abc", b"abcde"])

    def disturbed(fd, size):
        data = read_all(fd, size)
        for new in writes:
            (tmp_path / "d" / "f").write_bytes(new)
            break
        return data

    monkeypatch.setattr(tree_disk, "_read_all", disturbed)
    assert disk.read("workspace:d/f") == b"abcde"

    writes = (b"x" * (size % 7) for size in range(100))
    with pytest.raises(TreeError, match="changed during each"):
        disk.read("workspace:d/f")


@pytest.mark.skipif(os.name == "nt", reason="such names do not exist on Windows")
def test_names_that_cannot_be_written_down_are_left_out_and_reported(disk, tmp_path):
    for name in (b"line\nbreak", b"back\\slash", b"latin-\xe9", b"good"):
        try:
            os.close(os.open(os.fsencode(tmp_path / "d") + b"/" + name, os.O_CREAT))
        except OSError:
            assert name == b"latin-\xe9"  # refused by APFS
    expected = (Entry("empty", "dir"), Entry("f", "file"), Entry("good", "file"))
    assert disk.list("workspace:d") == disk.list("workspace:d") == expected
    reported = " ".join(problem.message for problem in disk.problems)
    assert "holds a line break" in reported
    assert "holds a backslash" in reported
    assert {problem.path for problem in disk.problems} == {"workspace:d"}
    assert len(disk.problems) == len({problem.message for problem in disk.problems}) <= 3
    reported.encode()
    assert problems_of(OverlayTree(disk, {})) == disk.problems


def test_links_are_followed_inside_the_root_only(disk, tmp_path):
    os.symlink("d/f", tmp_path / "link")
    os.symlink(str(tmp_path.parent), tmp_path / "out")
    os.symlink("nowhere", tmp_path / "dangling")
    assert disk.read("workspace:link") == b"12345"
    assert disk.list("workspace:")[1:] == (
        Entry("dangling", "other", link=True),
        Entry("link", "file", link=True),
        Entry("out", "other", link=True),
    )
    assert [disk.kind(f"workspace:{name}") for name in ("dangling", "link", "out")] == [
        "other",
        "file",
        "other",
    ]
    with pytest.raises(NotFound):
        disk.read("workspace:dangling")
    with pytest.raises(TreeError, match="leaves its root") as caught:
        disk.read("workspace:out/x")
    assert caught.value.file == "workspace:out/x"


def test_what_may_not_be_read_says_so(disk, monkeypatch):
    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    for method in ("open", "entries", "stat"):  # denied here, because root may read everything
        monkeypatch.setattr(ConfinedRoot, method, denied)
    for action in (disk.read, disk.list, disk.kind):
        with pytest.raises(TreeError, match="cannot be read: Permission denied") as caught:
            action("workspace:d/f")
        assert "permissions" in caught.value.hint
    recorded = RecordingTree(disk, lambda: 0)
    with pytest.raises(TreeError):
        recorded.kind("workspace:d/f")
    [known] = recorded.inputs()
    assert known == Input("workspace:d/f", "file", UNREADABLE, None) == observe(disk, known)


def test_the_disk_tree_tells_stat_data(disk, tmp_path):
    assert disk.stamp("workspace:d/f") == stamp(str(tmp_path / "d" / "f"))


def test_an_overlay_has_stamps_only_where_the_base_decides(disk):
    overlay = OverlayTree(disk, {"workspace:d/f": None, "workspace:n/f": b""})
    assert overlay.stamp("workspace:d/empty") == disk.stamp("workspace:d/empty") is not None
    for path in ("workspace:", "workspace:d", "workspace:d/f", "workspace:n/f"):
        assert overlay.stamp(path) is None


def test_an_empty_directory_on_disk_stays_under_an_overlay(disk):
    overlay = OverlayTree(disk, {"workspace:d/f": None, "workspace:d/empty/never": None})
    assert overlay.list("workspace:d") == (Entry("empty", "dir"),)
    assert overlay.kind("workspace:d/empty") == "dir"


def test_files_given_twice_over_are_refused():
    with pytest.raises(TreeError, match="both as a file and as a directory"):
        MemoryTree({"workspace:a": b"", "workspace:a/b": b""})
    with pytest.raises(TreeError, match="is a directory"):
        MemoryTree({"workspace:": b""})


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        ":a",
        "a/b:c",
        "workspace:/a",
        "workspace:a/",
        "workspace:a//b",
        "workspace:./a",
        "workspace:a/../b",
        "workspace:a\\b",
        "workspace:a\0",
    ],
)
def test_malformed_paths_are_refused_everywhere(disk, path):
    with pytest.raises(TreeError, match="is not a path in a tree"):
        split(path)
    for tree in (disk, MemoryTree({}), OverlayTree(disk, {})):
        with pytest.raises(TreeError):
            tree.kind(path)


def test_paths_are_joined_and_split():
    assert split("workspace:") == ("workspace", "")
    assert split("builtin:prompts/all") == ("builtin", "prompts/all")
    assert join("workspace:", ".halo", "agents/x") == "workspace:.halo/agents/x"
    assert join("workspace:a", "b:c") == "workspace:a/b:c"
    assert join("workspace:a") == "workspace:a"
    for part in ("", "..", "a/../b", "/a", "a\\b", "a/"):
        with pytest.raises(TreeError):
            join("workspace:a", part)
