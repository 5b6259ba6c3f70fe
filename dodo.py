"""Tasks of Halo's own repository: `doit list` shows them.

A workspace's dodo.py is one import instead: `from halo.dodo import *`.
"""

import os
import shlex
import shutil
import subprocess
import sys

DOIT_CONFIG = {
    "default_tasks": ["lint", "test"],
    "verbosity": 2,
    "backend": "json",
    "dep_file": ".doit.db.json",
}

PYTHON = sys.executable
EXAMPLE = "workspace_example"
QUESTION = "What is the capital of France?"
# A file of tests stays together: its fixtures (a model, a server) are made once; conftest.py sorts the files.
PARALLEL = ["pytest", "-q", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]


def _run(*command, cwd=None):
    """Run a command with this interpreter's environment; its output goes straight through."""
    print(f"\n$ {shlex.join(command)}", flush=True)
    found = [PYTHON, "-m", command[0], *command[1:]]
    return subprocess.run(found, cwd=cwd, check=False).returncode == 0


def _demo():
    """Fetch the small model, compile the example, show its layers, ask it something."""
    return (
        _run("halo", "model", "pull")
        and _run("halo", "build", "-w", EXAMPLE)
        and _run("halo", "prompt", "-w", EXAMPLE, "--layers")
        and _run("halo", "run", "-w", EXAMPLE, "-n", QUESTION)
    )


def task_demo():
    """Show the main job on workspace_example with the embedded model; needs `.[local]`."""
    return {"actions": [_demo], "io": {"capture": False}}


def task_test():
    """Run the tests but for the slow ones, on every core; needs `.[dev]`."""
    return {"actions": [(_run, [*PARALLEL, "-m", "not slow"])], "io": {"capture": False}}


def task_test_slow():
    """Run the tests that take seconds each: a real model, the documentation's commands, hostile input."""
    return {"actions": [(_run, [*PARALLEL, "-m", "slow"])], "io": {"capture": False}}


def _soak():
    os.environ.update(HALO_SOAK="1", HALO_EXAMPLES="200")
    build = ["test_hostile_workspaces.py", "test_hostile_sizes.py", "test_garbage.py"]
    files = ["tests/sessions/test_crashes.py", *(f"tests/build/{name}" for name in build)]
    return _run(*PARALLEL, *files) and _run(*PARALLEL, "-m", "hypothesis")


def task_soak():
    """Run 5,000 kills, hostile workspaces, sweeps, and each property on many examples: half an hour."""
    return {"actions": [_soak], "io": {"capture": False}}


def task_lint():
    """Check style, types, floors and generated documentation; needs `.[dev]`."""
    yield {"name": "ruff", "actions": [(_run, ["ruff", "check"])]}
    yield {"name": "format", "actions": [(_run, ["ruff", "format", "--check"])]}
    yield {"name": "mypy", "actions": [(_run, ["mypy"])]}
    yield {"name": "floors", "actions": [_lint_floors]}
    yield {"name": "cog", "actions": [(_run, ["cogapp", "--check", "-I", "docs", *_generated()])]}


def _lint_floors():
    # import-linter has a console script only.
    command = [os.path.join(os.path.dirname(PYTHON), "lint-imports")]
    print(f"\n$ {' '.join(command)}", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def _generated():
    return ["docs/reference/cli.md", "docs/reference/errors.md", "docs/reference/formats.md"]


def task_docs():
    """Write the generated parts of the documentation anew."""
    cog = ["cogapp", "-r", "-I", "docs", *_generated()]
    return {"actions": [(_run, cog), (_script, ["docs/generate.py"])]}


def _script(path, *arguments):
    return subprocess.run([PYTHON, path, *arguments], check=False).returncode == 0


def task_bench():
    """Run the benchmarks; each prints a table."""
    for name, *arguments in (
        ("startup",),
        ("compile", "--quick"),
        ("watching",),
        ("search",),
        ("runner",),
        ("sessions", "--quick"),
        ("cache_hits",),
        ("kv_restore",),
    ):
        action = (_script, [f"benchmarks/{name}.py", *arguments])
        yield {"name": name, "actions": [action], "io": {"capture": False}}


def _clean_example():
    for folder in ("artifacts", "build", "sessions"):
        shutil.rmtree(os.path.join(EXAMPLE, ".halo", folder), ignore_errors=True)


def task_clean_example():
    """Remove what the demo has made in workspace_example."""
    return {"actions": [_clean_example]}
