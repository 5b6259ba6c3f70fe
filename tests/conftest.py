"""What the tests of several rooms share: workspaces on disk, and the `halo` and `doit` commands as processes."""

import compileall
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from making import REPOSITORY, examples
from zygote import Started, can_fork

from halo.build.builder import Builder
from halo.workspace.locate import templates_folder
from halo.workspace.places import Places

# The real model and servers, for every room.
pytest_plugins = ["real_model"]

# No deadlines, because a loaded machine is not a bug.
settings.register_profile(
    "halo", deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("halo")

# Files whose tests take seconds each. These, and what runs the real model, is for `doit test_slow`.
SLOW = (
    "build/test_doit_pitfalls.py",
    "build/test_faults.py",
    "build/test_hostile_sizes.py",
    "build/test_hostile_workspaces.py",
    "cli/test_mcp_commands.py",
    "docs/test_commands.py",
    "library/test_cancelled_mcp_turns.py",
    "models/test_pull.py",
    "sessions/test_crashes.py",
    "testing/test_pytest_plugin.py",
    "tools/test_mcp_endings.py",
)
# Further files that had better not come last.
LONG = (
    "tools/test_file_escapes.py",
    "tools/test_mcp_clients.py",
    "models/test_retrying.py",
    "tools/test_sandbox_escapes.py",
    "cli/test_asking.py",
    "cli/test_chat.py",
    "build/test_watching.py",
    "cli/test_watch.py",
    "cli/test_run.py",
    "build/test_garbage.py",
)
_TESTS = REPOSITORY / "tests"
_SLOW = {_TESTS / name for name in SLOW}
_REAL = {"model_file", "shared_cache", "llama_server"}
_FIRST = {_TESTS / name: number for number, name in enumerate((*SLOW, *LONG), 1)}
_collected: set[Path] = set()


def pytest_sessionstart(session):
    """Compile Halo to byte code once, as an installed package is; else each of some hundred processes does it.

    A shell lets what it starts in the background ignore Ctrl-C, and that is inherited; the tests send it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(REPOSITORY / "halo", quiet=2)


def pytest_itemcollected(item):
    """Mark what is slow."""
    _collected.add(item.path.parent)
    real = not _REAL.isdisjoint(getattr(item, "fixturenames", ()))
    if real:
        _FIRST[item.path] = 0
    if real or item.path in _SLOW:
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Let long files begin first, so that no worker is left with one while the others are done."""
    if config.args_source is config.ArgsSource.TESTPATHS:
        missing = {path.parent for path in _TESTS.rglob("test_*.py")} - _collected
        if missing:
            raise pytest.UsageError(f"no test of these folders is collected: {sorted(map(str, missing))}")
    items.sort(key=lambda item: _FIRST.get(item.path, len(_FIRST) + 1))  # stable: else the order stays


class DiskWorkspace:
    """A workspace on disk with a home of its own. Keys are as in `making.tree`: no root is the workspace."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        self.home = folder / "home"
        self.halo = self.root / ".halo"
        self.halo.mkdir(parents=True)
        self.templates = templates_folder()
        self.ahead_ns = 10_000_000_000

    def without_templates(self) -> "DiskWorkspace":
        """Leave out what Halo brings along: fewer targets. Not for commands, which find their own."""
        empty = self.root.with_name("templates")
        empty.mkdir(exist_ok=True)
        self.templates = str(empty)
        return self

    @property
    def places(self) -> Places:
        return Places(str(self.root), str(self.home), self.templates, str(self.home.parent))

    def now_ns(self) -> int:
        """A clock that runs ahead, so that what has just been written has rested long enough to be trusted."""
        return time.time_ns() + self.ahead_ns

    @property
    def builder(self) -> Builder:
        return Builder(self.places, self.now_ns)

    def path(self, key: str) -> Path:
        root, colon, relative = key.partition(":")
        if not colon:
            return self.root / key
        roots = {"workspace": self.root, "global": self.home / "global", "secrets": self.home / "secrets"}
        return roots[root] / relative

    def write(self, files: dict[str, str]) -> "DiskWorkspace":
        for key, text in files.items():
            path = self.path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        return self

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of a process that finds this checkout, this home and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "HALO_HOME": str(self.home),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            **more,
        }

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.root,
            env=self.environ(**more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def cli(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `halo`."""
        with self.start(*arguments, environ=self.environ(**more)) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(["halo", *arguments], process.returncode, out, err)

    def start(
        self, *arguments: str, environ: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[str]":
        """Start `halo`, with pipes for what it says; `options` are those of `Popen`."""
        environ = self.environ() if environ is None else environ
        options = {
            "cwd": self.root,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            **options,
        }
        if can_fork(environ, **options):
            return Started(arguments, environ, **options)
        return subprocess.Popen([sys.executable, "-m", "halo", *arguments], env=environ, **options)

    def doit(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `doit` in the workspace."""
        return self.run("-m", "doit", *arguments, **more)

    def artifacts(self) -> dict[str, bytes]:
        """Every file below `.halo/artifacts/`, by its path there."""
        folder = self.halo / "artifacts"
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    def pointers(self) -> dict[str, bytes]:
        """Every pointer below `.halo/build/`, by its target's name."""
        folder = self.halo / "build"
        return {
            str(p.relative_to(folder)).removesuffix(".json"): p.read_bytes()
            for p in sorted(folder.rglob("*.json"))
            if p.parent != folder
        }


@pytest.fixture(scope="module")
def make_shared_workspace(tmp_path_factory):
    """Make workspaces that the tests of a file only look at."""
    return lambda files: DiskWorkspace(tmp_path_factory.mktemp("shared")).write(files)


@pytest.fixture
def make_workspace(tmp_path):
    """Make workspaces with files: `make_workspace({".halo/USER.md": "..."})`."""
    made = 0

    def make(files: dict[str, str]) -> DiskWorkspace:
        nonlocal made
        made += 1
        folder = tmp_path / str(made)
        folder.mkdir()
        return DiskWorkspace(folder).write(files)

    return make
