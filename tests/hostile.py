"""Runs command lines of `halo` in a child that is held to bounds: memory by the kernel, time by the parent.

All command lines of a call run in one child, one after the other: an interpreter starts once. A command that
raises, blocks or outgrows its memory fails the test that asked.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from making import REPOSITORY

MEMORY = 1_000_000_000  # bytes of address space
SECONDS = 120  # a bound, no measure: what hangs would hang for ever

_CHILD = """
import io, json, os, resource, sys, traceback
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
from contextlib import redirect_stderr, redirect_stdout
from halo.cli.main import run

class Stream(io.TextIOWrapper):
    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="\\n")
    @property
    def text(self):
        self.flush()
        return self.buffer.getvalue().decode("utf-8", "replace")

for line in sys.stdin:
    job = json.loads(line)
    os.environ.update(HOME=job["user"], HALO_HOME=job["home"])
    os.chdir(job["cwd"])
    out, err = Stream(), Stream()
    code = "crashed"
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(job["arguments"])
        except BaseException:
            traceback.print_exc()
    print(json.dumps([code, out.text, err.text]), flush=True)
"""


class Said(NamedTuple):
    """What a command line came to."""

    arguments: tuple[str, ...]
    code: int | str
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Job(NamedTuple):
    """A command line in a workspace; `home` is Halo's home, its parent the user's."""

    root: Path
    home: Path
    arguments: tuple[str, ...]


def run_all(
    jobs: list[Job],
    *,
    memory: int = MEMORY,
    wrapper: tuple[str, ...] = (),
    environ: dict[str, str] | None = None,
    seconds: int = SECONDS,
) -> list[Said]:
    """Run the jobs in one child, as `wrapper` starts it (as another user), with `environ` beside the usual."""
    lines = [
        json.dumps(
            {
                "cwd": str(job.root),
                "home": str(job.home),
                "user": str(job.home.parent),
                "arguments": job.arguments,
            }
        )
        for job in jobs
    ]
    child = subprocess.run(
        [*wrapper, sys.executable, "-c", _CHILD.format(memory=memory)],
        input="".join(f"{line}\n" for line in lines),
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            **(environ or {}),
        },
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    answers = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(answers) == len(jobs), child.stderr[-2000:]
    return [Said(job.arguments, *answer) for job, answer in zip(jobs, answers, strict=True)]


def refused_well(said: Said) -> bool:
    """Tell whether a command ended as commands end: an exit code that is documented, no traceback."""
    return said.code in (0, 1, 2, 3) and "Traceback" not in said.text
