"""A program that an agent may have written is not started."""

import os

import pytest
from making import agent

from halo.build.diff.revisions import Repository
from halo.build.trace.blame import blame_lines
from halo.errors import StartError
from halo.files.git_calls import call_git
from halo.files.git_objects import GitObjects
from halo.files.programs import find_program

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a script as a program")


def place(folder, name="tool", text="#!/bin/sh\n"):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def path(monkeypatch):
    def put(*folders):
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))

    return put


def test_what_lies_in_the_workspace_does_not_count(tmp_path, path):
    ws = tmp_path / "ws"
    program = place(ws / ".venv/bin")
    path(ws / ".venv/bin")
    assert find_program("tool", str(ws)) is None
    assert find_program("tool", str(tmp_path / "w")) == program
    assert find_program("tool", "") == program


def test_the_next_one_is_taken(tmp_path, path):
    place(tmp_path / "ws/bin")
    program = place(tmp_path / "usr")
    path(tmp_path / "ws/bin", tmp_path / "nowhere", tmp_path / "usr")
    assert find_program("tool", str(tmp_path / "ws")) == program
    assert find_program("other", str(tmp_path / "ws")) is None


@pytest.mark.parametrize("way", ["to-folder", "to-program", "from-workspace"])
def test_links_do_not_help(tmp_path, path, way):
    """Neither into the workspace, nor one in it, which an agent could turn."""
    ws, elsewhere = tmp_path / "ws", tmp_path / "elsewhere"
    place(ws / "bin")
    elsewhere.mkdir()
    place(tmp_path / "usr")
    os.symlink(ws, tmp_path / "ws-link")
    os.symlink(ws / "bin", elsewhere / "to-folder")
    (elsewhere / "to-program").mkdir()
    os.symlink(ws / "bin/tool", elsewhere / "to-program/tool")
    os.symlink(tmp_path / "usr", ws / "turned")
    path(ws / "turned" if way == "from-workspace" else elsewhere / way)
    for name in (ws, tmp_path / "ws-link"):
        assert find_program("tool", str(name)) is None
    assert find_program("tool", str(tmp_path / "other")) is not None


def test_folders_that_are_not_absolute_do_not_count(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    place(tmp_path / "bin")
    place(tmp_path)
    path("bin", ".", "")
    assert find_program("tool", str(tmp_path / "ws")) is None
    monkeypatch.delenv("PATH")
    assert find_program("tool", str(tmp_path / "ws")) is None


@pytest.fixture
def trapped(make_workspace, monkeypatch):
    """A workspace with a git of its own, first on PATH: it leaves a mark."""
    ws = make_workspace({".halo/agents/a/agent.yaml": agent(), ".halo/agents/a/AGENT.md": "Hello.\n"})
    assert call_git(str(ws.root), "init", "-q").code == 0
    place(ws.root / "bin", "git", f'#!/bin/sh\necho x >> "{ws.root}/started"\nexit 1\n')
    monkeypatch.setenv("PATH", f"{ws.root}/bin{os.pathsep}{os.environ['PATH']}")
    return ws


def test_git_of_the_workspace_is_not_started(trapped):
    root = str(trapped.root)
    assert call_git(root, "version").out.startswith(b"git version")
    assert call_git(f"{root}/.halo", "version", workspace=root).code == 0
    with GitObjects(f"{root}/.halo", root) as objects:
        assert objects.get("HEAD") is None
    assert Repository.around(root).prefix == ""
    line = ("workspace:.halo/agents/a/AGENT.md", 1)
    assert blame_lines(trapped.places, [line])[line].state == "untracked"
    assert not (trapped.root / "started").exists()


def test_without_another_one_there_is_none(trapped, monkeypatch):
    monkeypatch.setenv("PATH", f"{trapped.root}/bin")
    with pytest.raises(StartError, match="git is not installed") as raised:
        call_git(str(trapped.root), "version")
    assert "one in the workspace is not taken" in str(raised.value)
    with pytest.raises(StartError, match="git is not installed"), GitObjects(str(trapped.root)) as objects:
        objects.get("HEAD")
    assert not (trapped.root / "started").exists()
