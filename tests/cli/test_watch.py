"""`halo watch` and `doit watch` as processes: what a user sees while layers are edited, and how it ends."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from making import agent

from halo.build.targets import default_targets
from halo.cli.watch import Lines, wants_polling

A = ".halo/agents/a"
PATIENCE = 120  # seconds; a loaded machine is not a bug


class Watching:
    """A watching process whose lines can be waited for."""

    def __init__(self, ws, *command, wrap=(), **environ):
        self.ws = ws
        self.process = subprocess.Popen(
            [*wrap, sys.executable, "-m", *(command or ("halo", "watch"))],
            cwd=ws.root,
            env=ws.environ(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self):
        found = self._lines.get(timeout=PATIENCE)
        assert found is not None, self.process.stderr.read()
        return found

    def until(self, *beginnings):
        """Lines up to the one by which each of these beginnings has been seen."""
        found, missing = [], set(beginnings)
        while missing:
            found.append(self.line())
            missing -= {b for b in missing if found[-1].startswith(b)}
        return found

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        return code, self.process.stderr.read()


@pytest.fixture
def ws(make_workspace):
    return make_workspace(
        {
            f"{A}/agent.yaml": agent(),
            f"{A}/AGENT.md": "You are A.\n\nBe kind.\n",
            ".halo/agents/b/agent.yaml": agent(),
            ".halo/agents/b/AGENT.md": "You are B.\n",
            "dodo.py": "from halo.dodo import *\n",
        }
    )


@pytest.fixture
def watch(request):
    def start(ws, *command, **options):
        watching = Watching(ws, *command, **options)

        def stop():
            watching.process.kill()
            watching.process.wait()
            watching.process.stdout.close()
            watching.process.stderr.close()

        request.addfinalizer(stop)
        return watching

    return start


def assert_as_built_from_scratch(watching, make_workspace):
    """What the watcher leaves is fresh, and the very artifacts that a new clone builds."""
    ws = watching.ws
    for _ in range(20):
        # An edit elsewhere: what it has to say of that comes after all that it saw before.
        ws.write({"marker/.halo/INSTRUCTIONS.md": f"{time.time_ns()}\n"})
        watching.until("built   rules of marker/")
        said = ws.cli("build").stdout
        if said.endswith("all fresh\n"):
            break
    assert said.endswith("all fresh\n")
    clone = make_workspace({})
    shutil.rmtree(clone.root)
    shutil.copytree(ws.root, clone.root, ignore=shutil.ignore_patterns("build", "artifacts", ".git"))
    assert clone.cli("build").returncode == 0
    assert set(clone.pointers()) == set(ws.pointers())
    for target in default_targets(ws.places.tree()).targets:
        made, wanted = (each.builder.pointers.read(target).artifact for each in (ws, clone))
        assert made == wanted, target.name


def test_one_line_for_each_artifact_that_changed(ws, watch, make_workspace):
    watching = watch(ws)
    first = watching.until("watching ")
    assert first[0].startswith("built   a · root   ")
    assert first[-1].startswith(f"watching {len(first) - 1} targets in ")
    assert "   new   " in first[0]
    ws.write({f"{A}/AGENT.md": "You are A.\n\nBe very kind.\n"})
    lines = watching.until("built   a · root", "built   a · sub")
    label, fingerprint, where, tokens, duration = lines[0].removeprefix("built   ").split("   ")
    manifest = ws.builder.status(default_targets(ws.places.tree()).targets[0]).artifact.manifest
    assert label == "a · root"
    assert manifest.fingerprint.startswith(fingerprint)
    assert where == f"agent {A}/AGENT.md:3"
    assert tokens.startswith("+")
    assert duration.endswith(" ms")
    assert len(lines) == 2
    assert_as_built_from_scratch(watching, make_workspace)


def test_saves_deletes_and_errors_as_they_come(ws, watch, make_workspace):
    watching = watch(ws)
    watching.until("watching ")
    # An editor that saves by rename.
    (ws.root / A / "new").write_text("You are renamed.\n")
    os.replace(ws.root / A / "new", ws.root / A / "AGENT.md")
    watching.until("built   a · root", "built   a · sub")
    # Broken YAML in the middle of an edit.
    ws.write({f"{A}/agent.yaml": agent() + "tools: [file_read"})
    lines = watching.until("failed  a · root", "failed  a · sub")
    assert lines[0].startswith(f"failed  a · root   {A}/agent.yaml:2: not valid YAML")
    assert lines[1] == "failed  a · sub   as a · root"
    ws.write({f"{A}/agent.yaml": agent() + "tools: [file_read]\n"})
    assert f"   tools {A}/agent.yaml:2   " in watching.until("built   a · root", "built   a · sub")[0]
    # Folders.
    shutil.rmtree(ws.root / ".halo/agents/b")
    watching.until("gone    b/root", "gone    b/sub")
    ws.write({".halo/agents/c/agent.yaml": agent(), "docs/.halo/INSTRUCTIONS.md": "Short.\n"})
    watching.until("built   c · root", "built   c · sub", "built   rules of docs/")
    shutil.rmtree(ws.root / "docs")
    watching.until("gone    scopes/docs")
    assert_as_built_from_scratch(watching, make_workspace)


def git(ws, *arguments):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        cwd=ws.root,
        check=True,
        capture_output=True,
    )


def test_a_checkout_of_another_branch(ws, watch, make_workspace):
    ws.write({".gitignore": ".halo/build/\n.halo/artifacts/\n"})
    ws.write({f"notes/{i % 20}/{i}.md": "first\n" for i in range(1000)})
    git(ws, "init", "-q", "-b", "main")
    git(ws, "add", ".")
    git(ws, "commit", "-qm", "one")
    git(ws, "checkout", "-qb", "other")
    ws.write({f"notes/{i % 20}/{i}.md": "second\n" for i in range(1000)})
    ws.write({f".halo/agents/x{i}/agent.yaml": agent() for i in range(10)})
    ws.write({f"{A}/AGENT.md": "You are another.\n", "deep/er/.halo/INSTRUCTIONS.md": "Deep.\n"})
    shutil.rmtree(ws.root / ".halo/agents/b")
    git(ws, "add", ".")
    git(ws, "commit", "-qm", "two")
    git(ws, "checkout", "-q", "main")
    watching = watch(ws)
    watching.until("watching ")
    for _ in range(2):
        git(ws, "checkout", "-q", "other")
        new = [f"built   x{i} · {role}" for i in range(10) for role in ("root", "sub")]
        watching.until(
            "built   a · root", "built   a · sub", "built   rules of deep/er/", "gone    b/sub", *new
        )
        assert_as_built_from_scratch(watching, make_workspace)
        git(ws, "checkout", "-q", "main")
        gone = [line.replace("built  ", "gone   ").replace(" · ", "/") for line in new]
        watching.until("built   a · root", "built   a · sub", "built   b · sub", "gone    scopes/deep", *gone)
        assert_as_built_from_scratch(watching, make_workspace)


def test_a_second_watcher_and_builds_beside_it(ws, watch, make_workspace):
    one, other = watch(ws), watch(ws)
    for each in (one, other):
        each.until("watching ")
    for i in range(5):
        ws.write({f"{A}/AGENT.md": f"You are number {i}.\n"})
        assert ws.cli("build").returncode == 0
    last = ws.builder.status(default_targets(ws.places.tree()).targets[0]).artifact.manifest.fingerprint[:7]
    for each in (one, other):
        each.until(f"built   a · root   {last}")
    assert_as_built_from_scratch(one, make_workspace)


def test_halo_that_is_gone_is_said_and_waited_for(ws, watch):
    watching = watch(ws)
    watching.until("watching ")
    os.rename(ws.halo, ws.root / "aside")
    assert watching.line() == f"lost    {ws.halo} is gone; waiting for it"
    os.rename(ws.root / "aside", ws.halo)
    assert watching.line() == f"back    {ws.halo}"
    assert watching.line().startswith("watching ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_how_it_ends(ws, watch, number):
    watching = watch(ws)
    watching.until("watching ")
    assert watching.end(number) == (0, "")


def test_a_signal_before_the_first_look_is_over(ws, watch):
    ws.write({f".halo/agents/x{i}/agent.yaml": agent() for i in range(200)})
    watching = watch(ws)
    watching.until("built   a · root")
    assert watching.end() == (0, "")
    assert ws.cli("build").returncode == 0


def test_nobody_reads_any_more(ws):
    assert ws.cli("build").returncode == 0
    process = subprocess.Popen(
        f"{sys.executable} -m halo watch | head -n 1",
        shell=True,
        cwd=ws.root,
        env=ws.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        ws.write({f"{A}/AGENT.md": f"You are {time.time_ns()}.\n"})
        time.sleep(0.2)
    _, err = process.communicate(timeout=PATIENCE)
    assert line.startswith("watching ")
    assert err == ""


def test_doit_watch_is_the_same(ws, watch):
    watching = watch(ws, "doit", "watch")
    watching.until("watching ")
    ws.write({f"{A}/AGENT.md": "You are watched by doit.\n"})
    watching.until("built   a · root", "built   a · sub")
    assert watching.end() == (0, "")


def test_doit_does_not_watch_unless_it_is_asked(ws):
    assert ws.doit().returncode == 0
    assert "watch" in ws.doit("list").stdout


def test_polling_where_nothing_is_told(ws, watch):
    watching = watch(ws, WATCHFILES_FORCE_POLLING="1")
    watching.until("watching ")
    ws.write({f"{A}/AGENT.md": "You are polled.\n"})
    watching.until("built   a · root", "built   a · sub")


def test_the_system_s_limit_is_told_with_a_way_out(ws):
    limited = ["unshare", "-Ur", "sh", "-c", 'echo 3 > /proc/sys/user/max_inotify_watches && exec "$@"', "sh"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*limited, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no user namespaces here")
    done = subprocess.run(
        [*limited, sys.executable, "-m", "halo", "watch"],
        cwd=ws.root,
        env=ws.environ(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 3
    assert "folders cannot be watched: OS file watch limit reached" in done.stderr
    assert "WATCHFILES_FORCE_POLLING=1" in done.stderr


def test_outside_a_workspace_it_does_not_start(ws, tmp_path):
    done = ws.cli("watch", "-w", str(tmp_path))
    assert done.returncode == 2
    assert "halo init" in done.stderr


def test_who_wants_polling():
    assert wants_polling({"WATCHFILES_FORCE_POLLING": "1"})
    assert not wants_polling({"WATCHFILES_FORCE_POLLING": "false"})


def test_a_failure_that_came_back_is_explained_again():
    from halo.build.watch.events import Failed
    from halo.records.targets import SkillTarget

    lines = Lines()
    failed = [lines.of(Failed(SkillTarget(name), "workspace:x:1: broken\n  mend it")) for name in "ab"]
    assert failed == [["failed  skill a   x:1: broken mend it"], ["failed  skill b   as skill a"]]
    assert lines.of(Failed(None, "y: broken")) == ["failed  workspace   y: broken"]
