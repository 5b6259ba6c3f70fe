"""Builds under bad luck: killed at any moment, several at once, on a full disk.

Never a half artifact, never a wrong "fresh", and what was finished stays finished.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from making import agent, skill

from halo.build.builder import Builder
from halo.build.inspection import inspect
from halo.build.whole import survey
from halo.errors import ArtifactError
from halo.files import ops
from halo.records.targets import AgentTarget

MANY = {
    "dodo.py": "from halo.dodo import *\n",
    ".halo/USER.md": "USER",
    **{f".halo/agents/a{i}/agent.yaml": agent(name=f"A{i}", skills=["s"]) for i in range(20)},
    ".halo/skills/s/SKILL.md": skill("STEPS"),
    "pkg/.halo/INSTRUCTIONS.md": "PKG",
}
HALO = (sys.executable, "-m", "halo")
DOIT = (sys.executable, "-m", "doit")


@pytest.fixture(scope="module")
def expected(make_shared_workspace):
    """The artifacts of `MANY`, built in peace, and how many seconds that took."""
    ws = make_shared_workspace(MANY)
    began = time.monotonic()
    assert ws.cli("build").returncode == 0
    return ws.artifacts(), time.monotonic() - began


def start(ws, *command, **more):
    return subprocess.Popen(
        command,
        cwd=ws.root,
        env=ws.environ(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process):
    """(exit code, stderr) of a process that is to end by itself."""
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def whole(ws):
    """The files of artifacts that have their final name."""
    return {name: data for name, data in ws.artifacts().items() if not name.startswith(".")}


def fresh(ws):
    return {t.name for t in survey(ws.builder).targets if ws.builder.status(t).artifact}


class TestKilled:
    """SIGKILL, when it pleases; doit alone would have lost every record of the run."""

    @pytest.mark.parametrize("part", [0.5, 0.7, 0.9])
    @pytest.mark.parametrize("command", [(*HALO, "build"), (*HALO, "build", "-n", "2"), DOIT])
    def test_what_was_finished_is_remembered(self, make_workspace, expected, command, part):
        artifacts, seconds = expected
        ws = make_workspace(MANY)
        process = start(ws, *command)
        time.sleep(seconds * part)
        os.killpg(process.pid, signal.SIGKILL)
        said = end(process)[1].count("built ")
        assert whole(ws).items() <= artifacts.items()
        pointed = set(ws.pointers())
        assert fresh(ws) == pointed
        assert said <= len(pointed)
        again = ws.cli("build")
        assert again.returncode == 0
        assert again.stderr.count("built ") == len(survey(ws.builder).targets) - len(pointed)
        assert whole(ws) == artifacts

    def test_killed_again_and_again_it_still_comes_to_its_end(self, make_workspace, expected):
        """Each time as soon as there is something new: nothing of it is done twice."""
        ws = make_workspace(MANY)
        before = 0
        for _ in range(6):
            process = start(ws, *HALO, "build")
            while process.poll() is None and len(ws.pointers()) <= before:
                time.sleep(0.001)
            os.killpg(process.pid, signal.SIGKILL)
            end(process)
            assert len(fresh(ws)) > before
            before = len(fresh(ws))
        code, err = end(start(ws, *HALO, "build"))
        assert (code, err.count("built ")) == (0, len(survey(ws.builder).targets) - before)
        assert whole(ws) == expected[0]

    def test_an_interrupted_build_ends_at_once_and_keeps_what_it_has(self, make_workspace):
        ws = make_workspace(MANY)
        process = start(ws, *HALO, "build")
        while process.poll() is None and not ws.pointers():
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        code, err = end(process)
        assert code in (0, 1, 130, 3), err
        assert fresh(ws) == set(ws.pointers())
        assert ws.cli("build").returncode == 0


class TestAtOnce:
    @pytest.mark.parametrize("number", range(3))
    def test_builds_of_every_kind_all_end_right(self, make_workspace, expected, number):
        """doit's database is torn while another writes it: doit alone would exit with 3."""
        ws = make_workspace(MANY)
        commands = [DOIT, (*HALO, "build"), DOIT, (*HALO, "build", "-n", "2"), (*DOIT, "-n", "2")]
        results = [end(process) for process in [start(ws, *command) for command in commands]]
        assert [code for code, _ in results] == [0] * len(commands), results
        assert not any("Traceback" in err for _, err in results)
        assert whole(ws) == expected[0]
        assert fresh(ws) == {t.name for t in survey(ws.builder).targets}
        assert ws.cli("build").stderr == ""
        assert end(start(ws, *DOIT)) == (0, "")

    def test_a_torn_database_of_doit_at_the_moment_it_is_read(self, make_workspace):
        """Every torn form that a reader can meet while another doit writes."""
        ws = make_workspace(MANY)
        assert end(start(ws, *DOIT))[0] == 0
        database = ws.halo / "build" / "doit.json"
        data = database.read_text()
        from halo.dodo import TolerantCodec

        for cut in range(0, len(data), max(1, len(data) // 50)):
            assert isinstance(TolerantCodec().decode(data[:cut]), dict)
        assert TolerantCodec().decode(data)

    def test_while_layers_change_what_is_said_to_be_fresh_is_fresh(self, make_workspace):
        """Builds run while an editor saves: they say what is stale already. One more makes everything right."""
        ws = make_workspace(MANY)
        builds = [start(ws, *HALO, "build") for _ in range(2)]
        number = 0
        while any(build.poll() is None for build in builds):
            number += 1
            ws.write({".halo/USER.md": f"USER {number}", ".halo/agents/a7/AGENT.md": f"BODY {number}"})
            time.sleep(0.002)
        results = [end(build) for build in builds]
        assert {code for code, _ in results} <= {0, 1}
        assert all(err.count("stale ") >= 40 for code, err in results if code == 1), results
        assert "failed " not in results[0][1] + results[1][1]
        assert number > 20
        for target in survey(ws.builder).targets:
            artifact = ws.builder.status(target).artifact
            if artifact is not None and isinstance(target, AgentTarget) and target.agent.startswith("a"):
                assert f"USER {number}\n" in artifact.prompt
        assert ws.cli("build").returncode == 0
        prompt = ws.builder.frozen(AgentTarget("a7")).prompt
        assert f"USER {number}\n" in prompt
        assert f"BODY {number}\n" in prompt


def full(monkeypatch, after):
    """Let the disk be full after so many operations: nothing can be created or written any more."""
    left = after

    def filling(real):
        def call(*arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        return call

    for name in ("create", "write", "mkdir", "link"):
        monkeypatch.setattr(ops, name, filling(getattr(ops, name)))


TWO = {
    ".halo/agents/a/agent.yaml": agent(name="A"),
    ".halo/agents/a/AGENT.md": "FIRST",
    ".halo/agents/b/agent.yaml": agent(name="B"),
}


class TestFullDisk:
    @pytest.mark.parametrize("after", range(40))
    def test_at_any_operation(self, make_workspace, monkeypatch, after):
        """No half artifact under its name, the old one in its place, nothing lying about."""
        ws = make_workspace(TWO).without_templates()
        target = AgentTarget("a")
        old = ws.builder.ensure(target)
        ws.write({".halo/agents/a/AGENT.md": "SECOND"})
        failures = []
        with monkeypatch.context() as patch:
            full(patch, after)
            for each in survey(ws.builder).targets:
                try:
                    ws.builder.ensure(each)
                except OSError as error:
                    failures.append(error.errno)
            inspect(ws.builder).finish()
        assert set(failures) <= {errno.ENOSPC}
        assert failures or after > 9
        assert not failures or after < 39
        for path in (ws.halo / "artifacts").iterdir():
            assert ws.builder.store.load(path.name)
        assert not list(ws.halo.rglob(".*.tmp"))
        status = ws.builder.status(target)
        assert status.artifact is None or "SECOND" in status.artifact.prompt
        assert ws.builder.store.load(old.id) == old
        if status.artifact is None:
            with pytest.raises(ArtifactError, match="stale"):
                ws.builder.frozen(target)
        for each in survey(ws.builder).targets:
            ws.builder.ensure(each)
        assert "SECOND" in ws.builder.frozen(target).prompt

    def test_a_real_one(self, make_workspace):
        """A file system of 640 KiB: one message, exit code 1, and all is well as soon as there is room."""
        if (
            shutil.which("unshare") is None
            or subprocess.run(["unshare", "-rm", "true"], check=False).returncode
        ):
            pytest.skip("no user namespaces here, in which a file system could be mounted")
        ws = make_workspace({})
        done = subprocess.run(
            ["unshare", "-rm", sys.executable, "-c", REAL, str(ws.root)],
            env=ws.environ(),
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        if done.returncode == 77:
            pytest.skip(done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr


# In a namespace of its own: a small file system that something else fills up, bit by bit.
REAL = """
import os, subprocess, sys
root = sys.argv[1]
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "none", root], capture_output=True, text=True)
if mounted.returncode:
    print("nothing can be mounted:", mounted.stderr, file=sys.stderr)
    sys.exit(77)
from halo.build.builder import Builder
from halo.build.whole import survey
from halo.errors import ArtifactError
from halo.workspace.places import find_places

def run(*words):
    command = [sys.executable, "-m", "halo", *words]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)

def fill():
    with open(os.path.join(root, "filler"), "ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass

def room(size):
    os.truncate(os.path.join(root, "filler"), os.path.getsize(os.path.join(root, "filler")) - size)

assert run("init", ".").returncode == 0
fill()
counts = []
while True:
    done = run("build")
    builder = Builder(find_places(root, os.environ))
    targets = survey(builder).targets
    fresh = [target for target in targets if builder.status(target).artifact]
    counts.append(len(fresh))
    if os.path.isdir(builder.store.folder):
        for name in os.listdir(builder.store.folder):
            builder.store.load(name)  # whole, and no leftover
    assert "Traceback" not in done.stderr, done.stderr
    if len(fresh) == len(targets):
        break
    assert done.returncode == 1, done
    assert done.stderr.count("No space left on device") == 1, done.stderr
    assert run("gc").returncode == 0  # what makes room works without any
    room(32768)
assert done.returncode == 0, done
assert counts[0] == 0 and counts == sorted(counts) and len(set(counts)) > 2, counts
assert run("build").stdout.endswith("all fresh\\n")
fill()
with open(os.path.join(root, ".halo", "INSTRUCTIONS.md"), "r+") as file:
    file.write("-")
asked = run("prompt")
assert asked.returncode == 1, (asked, subprocess.run(["df", root], capture_output=True, text=True))
assert run("prompt", "--frozen").returncode == 1
packed = run("bundle")
assert packed.returncode == 1 and not [name for name in os.listdir(root) if "tar" in name], packed
room(os.path.getsize(os.path.join(root, "filler")))
assert run("build").returncode == 0
"""


def test_a_read_only_workspace_is_served_while_it_is_fresh(make_workspace):
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("no user namespaces here, in which a file system could be mounted read-only")
    ws = make_workspace(MANY)
    assert ws.cli("build").returncode == 0
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && '
        '"$2" -m halo prompt -a a7 --frozen && "$2" -m halo build && ! touch x'
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(ws.root), sys.executable],
        env=ws.environ(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "mount" in done.stderr and "touch" not in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all fresh" in done.stdout
    assert Builder(ws.places).frozen(AgentTarget("a7")).prompt in done.stdout
