"""A git revision is the tree that its checkout is."""

import os
import subprocess

import pytest

from halo.errors import TreeError
from halo.files.git_tree import GitTree
from halo.files.tree import DiskTree, NotFound, problems_of

FILES = {
    "README.md": b"top\r\n",
    "ws/.halo/USER.md": b"user\n",
    "ws/.halo/agents/x/agent.yaml": b"id: x\n",
    "ws/.halo/agents/x/AGENT.md": b"",
    "ws/name with spaces/\xc3\xa9.md": b"\xff\x00binary\n",
    "ws/back\\slash": b"",
    "ws/latin-\xe9": b"",
    "outside/secret": b"secret",
}
LINKS = {
    "ws/to_file": ".halo/USER.md",
    "ws/to_dir": ".halo/agents",
    "ws/.halo/agents/x/up": "../../USER.md",
    "ws/chain": "to_dir/x/up",
    "ws/out": "../outside",
    "ws/over": "../ws/to_file",
    "ws/through_file": "to_file/../to_dir",
    "ws/dangling": "nothing",
    "ws/loop": "loop",
    "ws/absolute": "/etc/hostname",
}


def git(repo, *args):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    run = subprocess.run(
        ["git", "-C", str(repo), *identity, *args], check=True, capture_output=True, env=environment
    )
    return run.stdout.decode().strip()


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def repo(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("repo")
    git(place, "init", "-q", f"--object-format={request.param}")
    for name, data in FILES.items():
        raw = name.encode("latin-1")
        path = os.fsencode(place) + b"/" + raw
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(path, "wb") as file:
                file.write(data)
        except OSError:
            assert raw == b"ws/latin-\xe9"  # refused by APFS
    os.chmod(place / "ws" / ".halo" / "USER.md", 0o755)
    for name, target in LINKS.items():
        os.symlink(target, place / name)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "one")
    return place


def walk(tree, path, depth=5):
    """Everything below `path`, through links as well (which may lead in circles, hence the depth)."""
    kind = tree.kind(path)
    if kind == "file":
        yield path, kind, tree.read(path)
    elif kind == "dir" and depth:
        entries = tree.list(path)
        yield path, kind, entries
        for entry in entries:
            yield from walk(
                tree, path + entry.name if path.endswith(":") else f"{path}/{entry.name}", depth - 1
            )
    else:
        yield path, kind, None


@pytest.mark.parametrize("folder", ["", "ws", "ws/.halo", "ws/to_dir", "absent", "README.md"])
def test_a_revision_equals_its_checkout(repo, folder):
    disk = DiskTree({"r": str(repo / folder)})
    with GitTree(str(repo), "HEAD", {"r": folder}) as tree:
        found = {path: rest for path, *rest in walk(tree, "r:")}
        expected = {path: rest for path, *rest in walk(disk, "r:")}
        if folder == "":  # `.git` is on disk and not in a revision
            expected = {path: rest for path, rest in expected.items() if not path.startswith("r:.git")}
            expected["r:"][1] = tuple(entry for entry in expected["r:"][1] if entry.name != ".git")
        assert found == expected
        assert problems_of(tree) == problems_of(disk)


@pytest.mark.parametrize(
    "path",
    [
        "r:out/secret",
        "r:loop",
        "r:over",
        "r:nothing",
        "r:to_file/x",
        "r:to_dir",
        "r:dangling",
        "r:absolute",
        "other:x",
    ],
)
def test_what_cannot_be_read_from_disk_cannot_be_read_from_git(repo, path):
    disk = DiskTree({"r": str(repo / "ws")})
    with GitTree(str(repo), "HEAD", {"r": "ws"}) as tree:
        assert tree.kind(path) == disk.kind(path)
        for method in ("read", "list"):
            if (method, path) == ("list", "r:to_dir"):
                continue
            with pytest.raises(TreeError) as on_disk:
                getattr(disk, method)(path)
            with pytest.raises(TreeError) as in_git:
                getattr(tree, method)(path)
            assert type(in_git.value) is type(on_disk.value)
            assert in_git.value.file == on_disk.value.file == path


def test_large_files_are_refused_and_the_next_read_is_unharmed(repo):
    with GitTree(str(repo), "HEAD", {"r": "ws"}) as tree:
        with pytest.raises(TreeError, match="larger than the 3 bytes"):
            tree.read("r:.halo/USER.md", 3)
        assert tree.read("r:.halo/USER.md", 5) == b"user\n"


def test_several_roots_share_one_process_and_the_work_tree_does_not_matter(repo):
    (repo / "ws" / "uncommitted").write_bytes(b"")
    before = sorted(os.listdir(repo / ".git"))
    try:
        with GitTree(str(repo / "ws"), "HEAD", {"a": "ws", "b": "outside", "top": ""}) as tree:
            assert tree.kind("a:uncommitted") == "absent"
            assert tree.read("b:secret") == b"secret"
            assert tree.read("top:ws/out/secret") == b"secret"
            assert tree.kind("a:out") == "other"
    finally:
        (repo / "ws" / "uncommitted").unlink()
    assert sorted(os.listdir(repo / ".git")) == before


def test_a_submodule_is_neither_file_nor_directory(repo):
    head = git(repo, "rev-parse", "HEAD")
    try:
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head},ws/module")
        tree_id = git(repo, "write-tree")
    finally:
        git(repo, "reset", "-q")
    with GitTree(str(repo), tree_id, {"r": "ws"}) as tree:
        assert tree.kind("r:module") == "other"
        with pytest.raises(TreeError, match="submodule"):
            tree.read("r:module")
        with pytest.raises(NotFound):
            tree.read("r:module/x")


@pytest.mark.parametrize("revision", ["no-such-branch", "", "two words", "a\nb", "HEAD:README.md"])
def test_an_unknown_revision_says_so(repo, revision):
    with GitTree(str(repo), revision, {"r": ""}) as tree, pytest.raises(TreeError) as caught:
        tree.list("r:")
    assert caught.value.hint


def test_what_git_says_is_passed_on(tmp_path):
    with (
        GitTree(str(tmp_path), "HEAD", {"r": ""}) as tree,
        pytest.raises(TreeError, match="not a git repository"),
    ):
        tree.list("r:")


def test_a_hook_of_another_repository_does_not_confuse_it(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    with GitTree(str(repo), "HEAD", {"r": ""}) as tree:
        assert tree.kind("r:README.md") == "file"
