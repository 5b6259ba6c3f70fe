"""Commands in bubblewrap: namespaces of their own, the mounts of `mounts`, no rights and no network."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.sandbox.base import Executed
from halo.tools.sandbox.direct import not_started
from halo.tools.sandbox.mounts import HOME, Opening, mounts
from halo.tools.sandbox.processes import run_process
from halo.tools.sandbox.shells import shell

# A new session: no terminal to type into. No user namespace inside: there a program could get rights again.
_ISOLATED = (
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop", "ALL",
    "--hostname", "sandbox",
)  # fmt: skip
_NO_MORE_USERS = ("--unshare-user", "--disable-userns")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_FILE_BYTES = 8 << 30  # of a file that a command writes
_LEAST_MEMORY = 32 << 30  # bytes of address space: some runtimes reserve much more than they use
_PROCESSES = 4096  # of one command; nothing bounds those of root


class Bubblewrap(NamedTuple):
    """What bubblewrap can do here: its program and the options it takes; `problem` says why it cannot.

    `sized`: it can bound what a file system in memory holds.
    """

    program: str = ""
    options: tuple[str, ...] = ()
    sized: bool = True
    problem: str = ""

    def arguments(self, laid_out: list[str]) -> list[str]:
        """Return the arguments of `mounts` as this version takes them."""
        if self.sized:
            return laid_out
        sizes = [i for i, argument in enumerate(laid_out) if argument == "--size"]
        return [a for i, a in enumerate(laid_out) if i not in sizes and i - 1 not in sizes]


@cache
def find_bubblewrap() -> Bubblewrap:
    """Find out, once for this process, whether commands can be kept in a sandbox."""
    return probe(shutil.which("bwrap"))


def probe(program: str | None) -> Bubblewrap:
    """Try bubblewrap with the options that commands are run with, the strictest first."""
    if sys.platform != "linux":
        return Bubblewrap(problem="the sandbox for shell commands needs Linux")
    if program is None:
        return Bubblewrap(problem="bubblewrap is not installed: install your system's package bubblewrap")
    said = ""
    for sized, users in product((True, False), (_NO_MORE_USERS, ())):
        found = Bubblewrap(program, (*_ISOLATED, *users), sized)
        mounted = found.arguments(["--ro-bind", "/", "/", "--size", "4096", "--tmpfs", "/tmp"])  # noqa: S108
        try:
            done = subprocess.run(
                [program, *found.options, *mounted, "--", shell(), "-c", "exit 0"],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env={},
                timeout=20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Bubblewrap(problem=f"bubblewrap does not run here: {error}")
        if done.returncode == 0:
            return found
        said = said or done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
    return Bubblewrap(
        problem=f"bubblewrap cannot make a sandbox here ({said}): this system must allow user namespaces, "
        "and bubblewrap must be version 0.4 or newer"
    )


class SandboxedCommands:
    """Runs commands in the workspace of `opening`, and in nothing else."""

    def __init__(self, opening: Opening, environ: Mapping[str, str]) -> None:
        self._opening = opening
        self._environment = {
            "PATH": _PATH,
            "HOME": HOME,
            "TMPDIR": "/tmp",  # noqa: S108
            "TERM": "dumb",
            **{name: environ[name] for name in ("LANG", "TZ") if name in environ},
        }

    async def execute(self, command: str, environment: Mapping[str, str], seconds: float) -> Executed:
        """Run `command`; see `halo.tools.sandbox.base.Commands`."""
        found = await asyncio.to_thread(find_bubblewrap)
        if found.problem:
            raise ToolFailure(refusal(found.problem))
        laid_out = await asyncio.to_thread(mounts, self._opening)
        argv = [
            found.program,
            *found.options,
            *(["--share-net"] if self._opening.network else []),
            *found.arguments(laid_out),
            "--",
            *limited(shell(), command),
        ]
        try:
            # bubblewrap hands its environment on, and shows its own in /proc/1 inside: so it has no other.
            executed = await run_process(argv, {**self._environment, **environment}, "/", seconds)
        except OSError as error:
            raise ToolFailure(not_started(error)) from error
        if executed.code == 1 and not executed.output and executed.errors.startswith("bwrap: "):
            raise ToolFailure(f"the sandbox could not be set up: {executed.errors.strip()}")
        return executed


def refusal(problem: str) -> str:
    """Say to a model, and who reads along, why shell_exec does nothing."""
    return f"shell_exec is refused: below full access commands run in a sandbox only, and {problem}"


def limited(shell_path: str, command: str) -> list[str]:
    """Return a program that runs `command` with limits that it cannot raise again."""
    block = 1024 if shell_path.endswith("bash") else 512
    limits = {"c": 0, "f": _FILE_BYTES // block, "v": max(_memory(), _LEAST_MEMORY) // 1024}
    if os.getuid() != 0 and _counts_in_namespaces(os.uname().release):
        limits["u"] = _PROCESSES
    script = "".join(f"ulimit -{letter} {limit} 2>/dev/null; " for letter, limit in limits.items())
    return [shell_path, "-c", f'{script}exec "$0" -c "$1"', shell_path, command]


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _counts_in_namespaces(release: str) -> bool:
    """Tell whether Linux counts a user's processes per user namespace; before, all of the user's counted."""
    numbers = release.split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= (5, 14)
    except (ValueError, IndexError):
        return False
