"""Runs command lines of `halo` in a child that is held to bounds: memory by the kernel, time by a watchdog.

One child runs many command lines, one after the other: to start an interpreter takes longer than most of them. A
command that raises, blocks or outgrows its memory fails the test that asked.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from making import REPOSITORY

MEMORY = 1_000_000_000  # bytes of address space
SECONDS = 120  # for one command line: a bound, no measure; what hangs would hang for ever

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

    @property
    def well(self) -> bool:
        """Whether it ended as commands end: an exit code that is documented, no traceback."""
        return self.code in (0, 1, 2, 3) and "Traceback" not in self.text


class Job(NamedTuple):
    """A command line in a workspace; `home` is Halo's home, its parent the user's."""

    root: Path
    home: Path
    arguments: tuple[str, ...]


class Child:
    """A process that runs jobs, as `wrapper` starts it (as another user), with `environ` beside the usual."""

    def __init__(
        self, *, memory: int = MEMORY, wrapper: Iterable[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [*wrapper, sys.executable, "-c", _CHILD.format(memory=memory)],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(REPOSITORY),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LC_ALL": "C.UTF-8",
                **(environ or {}),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run(self, job: Job, seconds: int = SECONDS) -> Said:
        """Run one job; one that takes more than `seconds` ends the child and is an AssertionError."""
        asked = {"cwd": job.root, "home": job.home, "user": job.home.parent}
        watchdog = threading.Timer(seconds, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(
                json.dumps({**{k: str(v) for k, v in asked.items()}, "arguments": job.arguments}) + "\n"
            )
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watchdog.cancel()
        assert answer, f"the child was ended by or before {job.arguments}"
        return Said(job.arguments, *json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
