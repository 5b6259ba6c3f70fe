"""Finds bubblewrap, and starts programs in it: namespaces and mounts of their own, no rights, no network."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.sandbox.entering import entering, origins
from halo.tools.sandbox.mounts import Opening, mounts
from halo.tools.sandbox.seccomp import filter_program
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

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Where systems keep their programs. Not along PATH: that may lead into a workspace (an activated virtual
# environment), where a command could leave a bubblewrap of its own for the next time.
FOLDERS = f"{PATH}:/run/wrappers/bin:/run/current-system/sw/bin:/nix/var/nix/profiles/default/bin"

# What the loader of any program takes code or orders from. Never for bubblewrap, which begins outside.
_LOADER = re.compile(r"LD_|MALLOC_|GCONV_PATH|GLIBC_TUNABLES|LOCPATH|NLSPATH")


class Bubblewrap(NamedTuple):
    """What bubblewrap can do here: its program and the options it takes; `problem` says why it cannot.

    `sized`: it can bound what a file system in memory holds. `filter`: see `seccomp`; empty where this kernel
    takes none.
    """

    program: str = ""
    options: tuple[str, ...] = ()
    sized: bool = True
    filter: bytes = b""
    problem: str = ""

    def arguments(self, laid_out: list[str]) -> list[str]:
        """Return the arguments of a layout as this version takes them."""
        if self.sized:
            return laid_out
        sizes = [i for i, argument in enumerate(laid_out) if argument == "--size"]
        return [a for i, a in enumerate(laid_out) if i not in sizes and i - 1 not in sizes]


class Boxed(NamedTuple):
    """A program in the sandbox, ready to be started with exactly this environment.

    bubblewrap hands its environment on, and shows its own in /proc/1 inside: so it has no other.
    """

    found: Bubblewrap
    arguments: list[str]
    environment: dict[str, str]

    @contextmanager
    def started_with(self) -> Iterator[tuple[list[str], tuple[int, ...]]]:
        """Give the command line, and the descriptors that it needs until it is started."""
        if not self.found.filter:
            yield [self.found.program, *self.arguments], ()
            return
        fd = _readable(self.found.filter)
        try:
            yield [self.found.program, "--seccomp", str(fd), *self.arguments], (fd,)
        finally:
            os.close(fd)


def boxed(
    opening: Opening, program: Sequence[str], environment: Mapping[str, str], folder: str = ""
) -> Boxed:
    """Put `program` into the sandbox of `opening`; it starts in `folder`, by default in the workspace.

    Raises `ToolFailure` where that cannot be. Looks at the disk and, once a process, starts bubblewrap: not
    for an event loop.
    """
    found = find_bubblewrap()
    if found.problem:
        raise ToolFailure(found.problem)
    layout = mounts(opening)
    ordered = {name: value for name, value in environment.items() if _LOADER.match(name)}
    arguments = [
        *found.options,
        *(["--share-net"] if opening.network else []),
        *found.arguments(layout.arguments),
        "--chdir", folder or os.path.realpath(opening.workspace),
        "--",
        *entering(program, origins(layout.disputed), ordered),
    ]  # fmt: skip
    return Boxed(found, arguments, {k: v for k, v in environment.items() if k not in ordered})


@cache
def find_bubblewrap() -> Bubblewrap:
    """Find out, once for this process, whether commands can be kept in a sandbox."""
    return probe(installed())


def installed() -> str | None:
    """Return where bubblewrap is; None where the system has none."""
    return shutil.which("bwrap", path=FOLDERS)


def probe(program: str | None) -> Bubblewrap:
    """Try bubblewrap with the options that commands are run with, the strictest first."""
    if sys.platform != "linux":
        return Bubblewrap(problem="the sandbox for shell commands needs Linux")
    if program is None:
        return Bubblewrap(problem="bubblewrap is not installed: install your system's package bubblewrap")
    said = ""
    filters = dict.fromkeys((filter_program(), b""))
    for filtered, sized, users in product(filters, (True, False), (_NO_MORE_USERS, ())):
        found = Bubblewrap(program, (*_ISOLATED, *users), sized, filtered)
        mounted = found.arguments(["--ro-bind", "/", "/", "--size", "4096", "--tmpfs", "/tmp"])  # noqa: S108
        arguments = [*found.options, *mounted, "--", shell(), "-c", "exit 0"]
        try:
            with Boxed(found, arguments, {}).started_with() as (argv, handed):
                done = subprocess.run(
                    argv,
                    capture_output=True,
                    stdin=subprocess.DEVNULL,
                    env={},
                    pass_fds=handed,
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


def _readable(data: bytes) -> int:
    """Return a descriptor that `data` is read from."""
    fd = os.memfd_create("halo", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
