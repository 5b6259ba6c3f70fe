"""One call of git in a repository that may be hostile.

Nothing that the repository configures is run (monitors, hooks, transports; what else a subcommand would run
is turned off by who calls it), nothing is fetched, time and output are bounded, and git itself is not taken
from the workspace.
"""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

from halo.errors import StartError, TreeError
from halo.files.programs import find_program

if TYPE_CHECKING:
    import subprocess

# What the user says about configuration and discovery counts; all other GIT_* may be about another
# repository (a hook runs with GIT_DIR set to the one that called it), or make git run or write something.
_KEPT = frozenset(
    {
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_EXEC_PATH",
    }
)
_KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")

_SET = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone must not turn a look into a download
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",  # messages are told apart by their words
}

_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
)

_BLOCK = 1 << 16  # bytes a read
_MOST_WORDS = 4096  # bytes of what git says when it fails


class GitAnswer(NamedTuple):
    """What a call came to: exit code, stdout, and the words of stderr."""

    code: int
    out: bytes
    said: str


def git_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a git that answers about the repository it stands in, and no other."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
    } | _SET


def git_program(workspace: str) -> str:
    """Find git, and not in the workspace. Raises StartError where there is none."""
    program = find_program("git", workspace)
    if program is None:
        raise StartError(
            "git is not installed",
            hint="install it, and see that it is on PATH; one in the workspace is not taken",
        )
    return program


def call_git(
    folder: str,
    *arguments: str,
    workspace: str = "",
    data: bytes = b"",
    limit: int = 64 << 20,
    seconds: float = 30.0,
) -> GitAnswer:
    """Run git in `folder` with `data` on stdin, and wait for it.

    `workspace` is the folder that git itself must not lie in; left out, it is `folder`.
    Raises StartError when there is no git, TreeError when it takes more than `seconds` or says more than
    `limit` bytes; it is then ended.
    """
    import tempfile
    import threading

    late = threading.Event()
    program = git_program(workspace or folder)
    # Files, so that neither side waits for the other to read.
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(data)
        stdin.seek(0)
        process = _start(program, folder, arguments, stdin, stderr)

        def stop() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            with process:
                try:
                    out = _read(process.stdout, limit)
                except BaseException:  # the user has had enough
                    _end(process)
                    raise
                if len(out) > limit:
                    _end(process)
        finally:
            timer.cancel()
        stderr.seek(0)
        said = stderr.read(_MOST_WORDS).decode(errors="replace").strip()
    if late.is_set():
        raise TreeError(f"git {arguments[0]} took more than {seconds:g} s and was ended", file=folder)
    if len(out) > limit:
        raise TreeError(f"git {arguments[0]} said more than {limit:,} bytes and was ended", file=folder)
    return GitAnswer(process.returncode, out, said)


def _start(
    program: str, folder: str, arguments: tuple[str, ...], stdin: IO[bytes], stderr: IO[bytes]
) -> "subprocess.Popen[bytes]":
    import subprocess

    return subprocess.Popen(
        [program, "-C", folder, *_OPTIONS, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=git_environment(os.environ),
        # A group of its own, so that what git has started ends with it.
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End git and what it has started; a second time does nothing."""
    if not hasattr(os, "killpg"):
        process.kill()
    elif process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _read(pipe: IO[bytes] | None, limit: int) -> bytes:
    """Read to the end, or until there is more than `limit`."""
    if pipe is None:
        raise AssertionError("git was started without a pipe")
    blocks: list[bytes] = []
    size = 0
    while size <= limit and (block := pipe.read(_BLOCK)):
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)
