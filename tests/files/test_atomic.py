"""Files and folders appear whole or not at all, whatever happens."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from crash import every_crash, recording, replay
from hypothesis import given
from hypothesis import strategies as st

from halo.errors import TreeError
from halo.files import atomic, ops
from halo.files.atomic import create_file, publish_folder, replace_file


def tree(path):
    """The files below `path`, by their relative names."""
    path = Path(path)
    return {
        found.relative_to(path).as_posix(): found.read_bytes() for found in path.rglob("*") if found.is_file()
    }


def temporaries(path):
    return [name for _, folders, names in os.walk(path) for name in folders + names if name.endswith(".tmp")]


def test_a_file_is_replaced_and_its_parents_are_made(tmp_path):
    path = str(tmp_path / "a" / "b" / "f")
    replace_file(path, b"old")
    replace_file(path, b"new", sync=True)
    assert tree(tmp_path) == {"a/b/f": b"new"}


def test_a_relative_path_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replace_file("f", b"1", sync=True)
    assert create_file("g", b"2", sync=True)
    assert publish_folder("h", {"i": b"3"})
    assert tree(tmp_path) == {"f": b"1", "g": b"2", "h/i": b"3"}


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_the_mode_is_the_one_asked_for_from_the_first_moment(tmp_path):
    with recording() as recorded:
        replace_file(str(tmp_path / "f"), b"", mode=0o600)
    assert os.stat(tmp_path / "f").st_mode & 0o777 == 0o600
    assert [op.name for op in recorded] == ["create", "write", "rename"]  # no chmod after the fact


def test_a_link_is_replaced_rather_than_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"target")
    os.symlink("target", tmp_path / "link")
    replace_file(str(tmp_path / "link"), b"new")
    assert not os.path.islink(tmp_path / "link")
    assert (tmp_path / "target").read_bytes() == b"target"


def test_the_longest_name_can_be_replaced(tmp_path):
    replace_file(str(tmp_path / ("é" * 127)), b"x")
    assert temporaries(tmp_path) == []


@pytest.mark.parametrize("failing", ["write", "fsync", "rename"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_replacement_that_fails(tmp_path, monkeypatch, failing, error):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail(*_):
        raise error

    monkeypatch.setattr(ops, failing, fail)
    with pytest.raises(type(error)):
        replace_file(str(path), b"new", sync=True)
    assert tree(tmp_path) == {"f": b"old"}


def test_a_file_is_created_once_and_never_overwritten(tmp_path):
    path = str(tmp_path / "a" / "f")
    assert create_file(path, b"one")
    assert not create_file(path, b"two")
    os.symlink("nowhere", tmp_path / "dangling")
    assert not create_file(str(tmp_path / "dangling"), b"two")
    assert not create_file(str(tmp_path / "a"), b"two")
    assert tree(tmp_path / "a") == {"f": b"one"}
    assert not os.path.exists(tmp_path / "nowhere")
    assert temporaries(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_in_the_last_moment_is_kept(tmp_path, monkeypatch, links):
    path = tmp_path / "f"
    link = ops.link

    def late(temp, target):
        path.write_bytes(b"theirs")
        if links:
            link(temp, target)
        raise OSError(errno.EOPNOTSUPP, "no hard links here")

    monkeypatch.setattr(ops, "link", late)
    assert not create_file(str(path), b"ours")
    assert tree(tmp_path) == {"f": b"theirs"}


def test_without_hard_links_a_file_is_still_created(tmp_path, monkeypatch):
    def no_links(*_):
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(ops, "link", no_links)
    assert create_file(str(tmp_path / "f"), b"data", sync=True)
    assert not create_file(str(tmp_path / "f"), b"other")
    assert tree(tmp_path) == {"f": b"data"}

    write_all = ops.write_all

    def full(fd, path, data):
        if path.endswith("g"):
            raise OSError(errno.ENOSPC, "full")
        write_all(fd, path, data)

    monkeypatch.setattr(ops, "write_all", full)
    with pytest.raises(OSError, match="full"):
        create_file(str(tmp_path / "g"), b"data")
    assert tree(tmp_path) == {"f": b"data"}


def test_a_folder_is_published_once(tmp_path):
    path = str(tmp_path / "artifacts" / "id")
    files = {"prompt.md": b"p", "few/shots/1.md": b"1", "few/shots/2.md": b"2", "few/x": b""}
    assert publish_folder(path, files)
    assert tree(path) == files
    assert not publish_folder(path, {"other": b""})
    assert tree(path) == files
    assert os.listdir(tmp_path / "artifacts") == ["id"]


def test_a_folder_that_appears_in_the_last_moment_wins(tmp_path, monkeypatch):
    path = tmp_path / "id"
    rename = ops.rename_folder

    def late(temp, target):
        path.mkdir()
        (path / "f").write_bytes(b"theirs")
        rename(temp, target)

    monkeypatch.setattr(ops, "rename_folder", late)
    assert not publish_folder(str(path), {"f": b"ours", "g/h": b""})
    assert tree(tmp_path) == {"id/f": b"theirs"}
    assert os.listdir(tmp_path) == ["id"]


@pytest.mark.parametrize("failing", ["mkdir", "create", "write", "rename_folder"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_nothing_is_left_of_a_folder_that_fails(tmp_path, monkeypatch, failing, at):
    real = getattr(ops, failing)
    countdown = iter(range(at, -1, -1))

    def fail(*args):
        if next(countdown, 1) == 0:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(ops, failing, fail)
    files = {"a/b/c": b"1", "a/d": b"2", "e": b"3"}
    if failing == "rename_folder" and at:
        assert publish_folder(str(tmp_path / "id"), files)
        return
    with pytest.raises(KeyboardInterrupt):
        publish_folder(str(tmp_path / "id"), files)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a//b", "a\\b", "."])
def test_file_names_cannot_lead_out_of_a_folder(tmp_path, name):
    with pytest.raises(TreeError):
        publish_folder(str(tmp_path / "id"), {"fine": b"", name: b""})
    assert os.listdir(tmp_path) == []


def test_a_name_that_is_file_and_folder_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError):  # noqa: PT011  # EEXIST on Linux, what it is elsewhere does not matter
        publish_folder(str(tmp_path / "id"), {"a/b": b"", "a": b""})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("rel", ["f", "new/dirs/f"])
def test_after_a_crash_a_synced_replacement_is_old_or_new(tmp_path, old, rel):
    base = tmp_path / "base"
    base.mkdir()
    initial = {"f": old} if old is not None else {}
    if old is not None:
        (base / "f").write_bytes(old)
    with recording() as recorded:
        replace_file(str(base / rel), b"new", sync=True)
    before = old if rel == "f" else None
    for number, (upto, lost) in enumerate(every_crash(recorded)):
        into = tmp_path / str(number)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), initial=initial, **lost)
        found = tree(into).get(rel)
        assert found in (before, b"new")
        if upto == len(recorded):
            assert found == b"new"


def test_after_a_crash_a_synced_new_file_is_there_or_not(tmp_path):
    base = tmp_path / "base"
    base.mkdir()
    with recording() as recorded:
        create_file(str(base / "inbox" / "f"), b"new", sync=True)
    acknowledged = len(recorded)
    for number, (upto, lost) in enumerate(every_crash(recorded)):
        into = tmp_path / str(number)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), **lost)
        assert tree(into).get("inbox/f") in ((b"new",) if upto == acknowledged else (None, b"new"))


FOLDER = st.dictionaries(st.sampled_from(["a", "b/c", "b/d", "e/f/g"]), st.binary(max_size=4), max_size=4)


@given(FOLDER)
def test_after_a_kill_a_folder_is_whole_or_absent(tmp_path_factory, files):
    place = tmp_path_factory.mktemp("crash")
    base = place / "base"
    base.mkdir()
    with recording() as recorded:
        publish_folder(str(base / "id"), files)
    for number, (upto, lost) in enumerate(every_crash(recorded)):
        into = place / str(number)
        into.mkdir()
        replay(recorded[:upto], str(base), str(into), **lost)
        visible = [name for name in os.listdir(into) if not name.startswith(".")]
        assert visible in ([], ["id"])
        if visible:
            # A power loss may empty files, which their digests tell; names are complete all the same.
            kept = files if not lost["drop_data"] else dict.fromkeys(files, b"")
            assert tree(into / "id") == kept


def test_two_processes_that_publish_the_same_folders_agree(tmp_path):
    script = (
        "import sys; from halo.files.atomic import publish_folder\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print([publish_folder(f'{sys.argv[1]}/{n}', {'a': b'a' * 5000, 'b/c': b'c'}) for n in range(60)])"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    first, second = (eval(worker.communicate()[0]) for worker in workers)
    assert [won + lost for won, lost in zip(first, second, strict=True)] == [1] * 60
    assert tree(tmp_path) == {
        f"{n}/{name}": data for n in range(60) for name, data in {"a": b"a" * 5000, "b/c": b"c"}.items()
    }
    assert temporaries(tmp_path) == []


def test_the_temporary_name_tells_whose_it_is():
    folder, name = os.path.split(atomic.temporary_beside("/x/prompt.md"))
    assert folder == "/x"
    assert name.startswith(f".prompt.md.{os.getpid()}-")


def test_a_file_system_that_cannot_sync_directories_is_put_up_with(tmp_path, monkeypatch):
    def unable(_):
        raise OSError(reason, "no")

    monkeypatch.setattr(ops.os, "fsync", unable)
    reason = errno.EINVAL
    ops.fsync_dir(str(tmp_path))
    reason = errno.EIO
    with pytest.raises(OSError, match="no"):
        ops.fsync_dir(str(tmp_path))
