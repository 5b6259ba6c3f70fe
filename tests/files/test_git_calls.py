"""git is called for a bounded time, with bounded output, and about the repository that it stands in."""

import os
import time

import pytest

from halo.errors import StartError, TreeError
from halo.files.git_calls import call_git, git_environment


@pytest.fixture
def repo(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert call_git(str(tmp_path), "init", "-q").code == 0
    return str(tmp_path)


def test_exit_code_output_and_words(repo):
    answer = call_git(repo, "hash-object", "--stdin", data=b"hello\n")
    assert answer == (0, b"ce013625030ba8dba906f756967f9e9ca394464a\n", "")
    answer = call_git(repo, "rev-parse", "--verify", "HEAD")
    assert (answer.code, answer.out) == (128, b"")
    assert answer.said == "fatal: Needed a single revision"


def test_large_data_in_both_directions(repo):
    """More than a pipe holds: neither side waits for the other."""
    data = os.urandom(1 << 20)
    oid = call_git(repo, "hash-object", "-w", "--stdin", data=data).out.decode().strip()
    assert call_git(repo, "cat-file", "blob", oid).out == data


def test_what_says_too_much_is_ended(repo):
    oid = call_git(repo, "hash-object", "-w", "--stdin", data=bytes(1 << 20)).out.decode().strip()
    assert len(call_git(repo, "cat-file", "blob", oid, limit=1 << 20).out) == 1 << 20
    with pytest.raises(TreeError, match="said more than 1,000 bytes and was ended"):
        call_git(repo, "cat-file", "blob", oid, limit=1000)


def test_what_takes_too_long_is_ended_with_all_it_started(repo, tmp_path):
    """A program that git waits for would hold its output open."""
    call_git(repo, "config", "alias.slow", "!sleep 60 & echo $! > pid; wait")
    begin = time.monotonic()
    with pytest.raises(TreeError, match=r"took more than 0\.5 s and was ended"):
        call_git(repo, "slow", seconds=0.5)
    assert time.monotonic() - begin < 30
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid):
    """Say whether a process runs; one that nobody has collected yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_without_git_it_could_not_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StartError, match="git is not installed"):
        call_git(str(tmp_path), "version")


def test_only_what_the_user_configured_is_kept_of_the_environment():
    kept = {
        "HOME": "/h",
        "GIT_CONFIG_GLOBAL": "/g",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "GIT_CEILING_DIRECTORIES": "/c",
    }
    dropped = dict.fromkeys(
        (
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_EXTERNAL_DIFF",
            "GIT_TRACE",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_PARAMETERS",
        ),
        "/elsewhere",
    )
    made = git_environment({**kept, **dropped, "GIT_ALLOW_PROTOCOL": "ext", "LC_ALL": "de_DE.UTF-8"})
    assert {name: made.get(name) for name in kept} == kept
    assert not dropped.keys() & made.keys()
    assert made["GIT_ALLOW_PROTOCOL"] == "none"
    assert made["LC_ALL"] == "C"


def test_reading_takes_no_lock_of_the_index(repo):
    """Complaint 67: a status poll held it, and the user's own commit failed."""
    path, index = os.path.join(repo, "a"), os.path.join(repo, ".git", "index")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a")
    assert call_git(repo, "add", "a").code == 0
    os.utime(path, (1, 1))  # git would like to write down what it sees now
    with open(index, "rb") as file:
        before = file.read()
    assert call_git(repo, "status", "--porcelain").out == b"A  a\n"
    with open(index, "rb") as file:
        assert file.read() == before
    with open(index + ".lock", "xb"):
        assert call_git(repo, "status", "--porcelain").out == b"A  a\n"
