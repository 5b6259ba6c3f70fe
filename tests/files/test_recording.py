"""What was consulted is recorded, so that every later change that matters is noticed."""

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_trees import CHANGES, FILES, UNIVERSE, changed, seen

from halo.errors import TreeError
from halo.files.digests import listing_digest, sha256
from halo.files.tree import (
    EXISTS,
    UNREADABLE,
    DiskTree,
    Input,
    MemoryTree,
    NotFound,
    OverlayTree,
    RecordingTree,
    observe,
    read_part,
)


def recording(tree):
    return RecordingTree(tree, lambda: 10**18)


def fresh(tree, inputs):
    return all(
        (now.kind, now.digest) == (known.kind, known.digest)
        for known in inputs
        for now in [observe(tree, known)]
    )


def consult(tree, questions):
    answers = []
    for method, path in questions:
        try:
            answers.append(getattr(tree, method)(path))
        except TreeError as error:
            answers.append((type(error), error.message))
    return answers


QUESTIONS = st.lists(
    st.tuples(st.sampled_from(["read", "list", "kind"]), st.sampled_from(UNIVERSE)), max_size=6
)


@given(FILES, CHANGES, QUESTIONS)
def test_inputs_are_fresh_only_if_every_answer_is_the_same(files, changes, questions):
    """The promise on which freshness rests: unchanged inputs, unchanged answers."""
    before, after = MemoryTree(files), MemoryTree(changed(files, changes))
    recorded = recording(before)
    answers = consult(recorded, questions)
    assert answers == consult(before, questions)
    inputs = recorded.inputs()
    assert fresh(before, inputs)
    if fresh(after, inputs):
        assert consult(after, questions) == answers


@given(FILES)
def test_recording_changes_no_answer(files):
    assert seen(recording(MemoryTree(files))) == seen(MemoryTree(files))


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_bytes(b"data")
    return DiskTree({"workspace": str(tmp_path)})


def test_each_kind_of_consultation_leaves_its_trace(disk, tmp_path):
    (tmp_path / "e").mkdir()
    tree = recording(disk)
    tree.read("workspace:d/f")
    tree.list("workspace:d")
    tree.kind("workspace:e")
    assert tree.kind("workspace:x") == "absent"
    with pytest.raises(NotFound):
        tree.read("workspace:y")
    assert tree.inputs() == (
        Input("workspace:d", "dir", listing_digest([("f", "file")]), disk.stamp("workspace:d")),
        Input("workspace:d/f", "file", sha256(b"data"), disk.stamp("workspace:d/f")),
        Input("workspace:e", "dir", EXISTS, disk.stamp("workspace:e")),
        Input("workspace:x", "absent", "", None),
        Input("workspace:y", "absent", "", None),
    )
    assert tree.recorded_ns == 10**18


def test_existence_that_follows_from_something_else_is_not_recorded(disk):
    """A file cannot be read, or a folder hold anything, without being there; what is missing proves nothing."""
    tree = recording(disk)
    for path in ("workspace:", "workspace:d", "workspace:d/f"):
        tree.kind(path)
    assert [known.path for known in tree.inputs()] == ["workspace:d/f"]
    tree.read_part("workspace:d/f", "first", lambda data: data[:1])
    assert [(known.path, known.part) for known in tree.inputs()] == [("workspace:d/f", "first")]
    tree = recording(disk)
    tree.kind("workspace:d")
    tree.kind("workspace:d/missing")
    assert [known.path for known in tree.inputs()] == ["workspace:d", "workspace:d/missing"]


def test_inputs_survive_json(disk):
    tree = recording(disk)
    tree.read("workspace:d/f")
    tree.kind("workspace:x")
    encoded = msgspec.json.encode(tree.inputs())
    assert msgspec.json.decode(encoded, type=tuple[Input, ...]) == tree.inputs()
    assert encoded.startswith(b'[["workspace:d/f","file",')


def test_content_counts_more_than_existence_in_whatever_order(disk):
    for order in (("kind", "read"), ("read", "kind"), ("list", "read"), ("read", "list")):
        tree = recording(disk)
        consult(tree, [(method, "workspace:d/f") for method in order])
        assert [found.digest for found in tree.inputs()] == [sha256(b"data")]


def test_a_file_that_becomes_a_link_is_another_entry(disk, tmp_path):
    """Who lists a folder may leave links out."""
    tree = recording(disk)
    tree.list("workspace:d")
    (tmp_path / "elsewhere").write_bytes(b"data")
    (tmp_path / "d" / "f").unlink()
    (tmp_path / "d" / "f").symlink_to("../elsewhere")
    assert not fresh(disk, tree.inputs())


def test_an_input_that_changes_during_the_work_is_stale_afterwards(disk, tmp_path):
    tree = recording(disk)
    tree.read("workspace:d/f")
    tree.kind("workspace:new")
    (tmp_path / "d" / "f").write_bytes(b"other")
    (tmp_path / "new").write_bytes(b"")
    tree.read("workspace:d/f")
    tree.read("workspace:new")
    assert not fresh(disk, tree.inputs()[:1])
    assert not fresh(disk, tree.inputs()[1:])


def test_the_stamp_is_older_than_the_bytes(disk, tmp_path, monkeypatch):
    """A write between the two must leave an old stamp, which is looked into, never a new one with old bytes."""
    before = disk.stamp("workspace:d/f")
    read = disk.read

    def late(path, limit):
        (tmp_path / "d" / "f").write_bytes(b"written meanwhile")
        return read(path, limit)

    monkeypatch.setattr(disk, "read", late)
    tree = recording(disk)
    assert tree.read("workspace:d/f") == b"written meanwhile"
    [known] = tree.inputs()
    assert known.stamp == before != disk.stamp("workspace:d/f")


def test_what_links_of_a_listing_lead_to_is_recorded_because_it_changes_without_a_trace(disk, tmp_path):
    os.symlink("../later", tmp_path / "d" / "link")
    os.symlink("f", tmp_path / "d" / "other")
    tree = recording(disk)
    tree.list("workspace:d")
    inputs = tree.inputs()
    assert [known.path for known in inputs] == ["workspace:d", "workspace:d/link", "workspace:d/other"]
    assert [known.stamp is not None for known in inputs] == [True, False, True]
    assert fresh(disk, inputs)
    (tmp_path / "later").mkdir()
    assert not fresh(disk, inputs)


def test_a_part_of_a_file_is_fresh_while_the_rest_is_edited(disk, tmp_path):
    (tmp_path / "p").write_bytes(b"head|tail")
    tree = recording(disk)

    def head(data):
        return data.partition(b"|")[0]

    assert read_part(tree, "workspace:p", "head", head) == b"head"
    [known] = tree.inputs()
    assert known.part == "head"
    (tmp_path / "p").write_bytes(b"head|another")
    assert observe(disk, known, head).digest == known.digest
    (tmp_path / "p").write_bytes(b"face|another")
    assert observe(disk, known, head).digest != known.digest
    (tmp_path / "p").unlink()
    assert observe(disk, known, head).kind == "absent"


def test_what_cannot_be_read_is_an_input_too(disk, tmp_path):
    os.symlink("nowhere", tmp_path / "dangling")
    os.symlink("..", tmp_path / "out")
    tree = recording(disk)
    with pytest.raises(TreeError):
        tree.read("workspace:d/f", 2)
    with pytest.raises(TreeError):
        tree.read("workspace:d")
    with pytest.raises(TreeError):
        tree.read("workspace:out/x")
    assert tree.kind("workspace:dangling") == "other"
    inputs = {known.path: known for known in tree.inputs()}
    assert [(known.kind, known.digest) for known in tree.inputs()] == [
        ("dir", EXISTS),
        ("file", UNREADABLE),
        ("file", UNREADABLE),
        ("file", UNREADABLE),
    ]
    assert fresh(disk, inputs.values())
    (tmp_path / "d" / "f").write_bytes(b"1")
    (tmp_path / "nowhere").write_bytes(b"1")
    assert not fresh(disk, [inputs["workspace:d/f"]])
    assert not fresh(disk, [inputs["workspace:dangling"]])


def test_stamps_are_found_through_overlays(disk):
    tree = recording(OverlayTree(disk, {"workspace:n": b"new"}))
    tree.read("workspace:d/f")
    tree.read("workspace:n")
    assert [known.stamp for known in tree.inputs()] == [disk.stamp("workspace:d/f"), None]
