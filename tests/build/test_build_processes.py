"""The same through real processes: byte-identical artifacts, two builds at once, a kill at any moment."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from making import REPOSITORY, agent, skill

from halo.build.whole import survey

EXAMPLE = REPOSITORY / "workspace_example"
DERIVED = shutil.ignore_patterns("artifacts", "build", "sessions", "__pycache__")


def copy_example(ws, *, backwards):
    """Copy the example file by file, so that folders list their names in another order."""
    files = [
        p
        for p in EXAMPLE.rglob("*")
        if p.is_file() and not DERIVED(str(p.parent), p.relative_to(EXAMPLE).parts)
    ]
    for path in sorted(files, reverse=backwards):
        target = ws.root / path.relative_to(EXAMPLE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        if backwards:
            os.utime(target, (1_000_000_000, 1_000_000_000))
    return ws


def everything_below(folder):
    return b"\n".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def test_two_machines_build_the_same_bytes(make_workspace, tmp_path):
    """Pure: two directories, homes, users, hash seeds, time zones, days and numbers of jobs.

    A secret in the environment, which the settings name as `<<FIELDNOTES_CONTACT>>`, is in no file.
    """
    one = copy_example(make_workspace({}), backwards=False)
    two = make_workspace({})
    two.root = tmp_path / "a longer path" / "überall" / "ws"
    two.halo = two.root / ".halo"
    copy_example(two, backwards=True)
    secret = "hush-4711-secret"
    first = one.cli("build", PYTHONHASHSEED="1", FIELDNOTES_CONTACT=secret, TZ="Asia/Tokyo", USER="mara-q7")
    second = two.cli(
        "build", "-n", "2", PYTHONHASHSEED="2", TZ="America/Lima", LC_ALL="C.UTF-8", USER="nils-q8"
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "14 targets: 14 built" in first.stdout
    assert one.artifacts() == two.artifacts()
    assert len(one.artifacts()) == 28
    for ws in (one, two):
        written = everything_below(ws.halo)
        assert secret.encode() not in written
        for text in (str(ws.root), str(ws.home), "q7", "q8"):
            assert text.encode() not in b"".join(ws.artifacts().values())
    assert "<<FIELDNOTES_CONTACT>>" not in b"".join(one.artifacts().values()).decode()


MANY = {
    ".halo/USER.md": "USER",
    **{f".halo/agents/a{i}/agent.yaml": agent(name=f"A{i}", skills=["s"]) for i in range(8)},
    ".halo/skills/s/SKILL.md": skill("STEPS"),
}


@pytest.fixture
def expected(make_workspace):
    """The artifacts of `MANY`, built in peace."""
    ws = make_workspace(MANY)
    for target in survey(ws.builder).targets:
        ws.builder.ensure(target)
    return ws.artifacts()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_builds_at_once_are_all_right(make_workspace, expected, jobs):
    """Neither fails, neither leaves anything that the other would not."""
    ws = make_workspace(MANY)
    command = [sys.executable, "-m", "halo", "build", "-n", jobs]
    builds = [
        subprocess.Popen(
            command, cwd=ws.root, env=ws.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    results = [(*build.communicate(timeout=120), build.returncode) for build in builds]
    assert [code for _, _, code in results] == [0, 0, 0], results
    assert ws.artifacts() == expected
    assert all(ws.builder.status(target).artifact for target in survey(ws.builder).targets)


# Runs the real command, and kills itself before the n-th operation that changes the disk.
DYING = """
import os, signal, sys
from halo.files import ops
left = int(sys.argv[1])
def dying(real):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call
for name in ("create", "write_all", "mkdir", "rename", "rename_folder", "make_dirs"):
    setattr(ops, name, dying(getattr(ops, name)))
from halo.cli.main import run
sys.exit(run(["build"]))
"""


@pytest.mark.parametrize("operations", [0, 3, 5, 7, 20, 57])
def test_a_kill_leaves_whole_artifacts_and_what_is_finished_is_remembered(
    make_workspace, expected, operations
):
    """doit would have lost every record of the run."""
    ws = make_workspace(MANY)
    killed = ws.run("-c", DYING, str(operations))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole = {name: data for name, data in ws.artifacts().items() if not name.startswith(".")}
    assert whole.items() <= expected.items()
    finished = set(ws.pointers())
    assert killed.stderr.count("built ") <= len(finished)
    fresh = {t.name for t in survey(ws.builder).targets if ws.builder.status(t).artifact}
    assert fresh == finished
    again = ws.cli("build")
    assert again.returncode == 0
    assert again.stderr.count("built ") == len(survey(ws.builder).targets) - len(finished)
    assert {k: v for k, v in ws.artifacts().items() if not k.startswith(".")} == expected
