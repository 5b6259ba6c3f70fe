"""Objects of a git repository, through one long-lived `git cat-file --batch`."""

import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

from halo.errors import TreeError
from halo.files.closing import Closing
from halo.files.git_calls import git_program

if TYPE_CHECKING:
    import subprocess

_BLOCK = 1 << 20  # bytes a read

# A hook runs with these set to the repository that called it, which may not be the one we were given.
_OF_ANOTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")


class GitObject(NamedTuple):
    """An object; `data` is None when its `size` (bytes) exceeds what was asked for."""

    oid: str
    type: str
    size: int
    data: bytes | None


class GitObjects(Closing):
    """The objects of the repository at `repo` (any directory in it), a context manager.

    git is started by the first look-up, and not taken from `workspace` (left out: `repo`). The work tree and
    the index are never touched. One thread at a time.
    """

    def __init__(self, repo: str, workspace: str = "") -> None:
        self.repo = repo
        self._workspace = workspace or repo
        self._process: subprocess.Popen[bytes] | None = None

    def get(self, name: str, limit: int | None = None) -> GitObject | None:
        """Return the object of an id or a revision expression, None when there is none.

        Of an object with more than `limit` bytes only the size is kept. Raises TreeError when git fails
        (its own words are in the message), StartError when there is no git.
        """
        if "\n" in name:
            raise TreeError(f"{name!r} cannot name anything in git", hint="a revision stands on one line")
        stdin, stdout = self._pipes()
        try:
            stdin.write(name.encode() + b"\n")
            stdin.flush()
            header = stdout.readline()
        except OSError:  # a broken pipe, which Windows calls by another name
            header = b""
        if not header.endswith(b"\n"):
            raise self._died()
        # `<oid> <type> <size>`, or `<name> missing` and the like, where the name may hold spaces.
        fields = header.decode(errors="replace").split()
        if fields[-1] in ("missing", "ambiguous"):
            return None
        oid, kind, size = fields[0], fields[1], int(fields[2])
        keep = limit is None or size <= limit
        data = self._body(stdout, size, keep=keep)
        return GitObject(oid, kind, size, data if keep else None)

    def close(self) -> None:
        """End git; a second time does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout, process.stderr):
            # A request that a dead git did not take is flushed once more by close, in vain.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        process.wait()

    def _body(self, stdout: IO[bytes], size: int, *, keep: bool) -> bytes:
        """Read an object's bytes and the newline behind them."""
        blocks: list[bytes] = []
        left = size + 1
        while left:
            block = stdout.read(min(left, _BLOCK))
            if not block:
                raise self._died()
            left -= len(block)
            if keep:
                blocks.append(block)
        return b"".join(blocks)[:size]

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = _start(git_program(self._workspace), self.repo)
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("git was started without pipes")
        return stdin, stdout

    def _died(self) -> TreeError:
        """Build the error for a git that ended, with what it said."""
        process = self._process
        said = process.stderr.read() if process is not None and process.stderr is not None else b""
        self.close()
        words = said.decode(errors="replace").strip() or "it ended without a word"
        return TreeError(f"git failed: {words}", file=self.repo, hint="does `git log` work there?")


def _start(program: str, repo: str) -> "subprocess.Popen[bytes]":
    import subprocess

    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}
    environment |= {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",  # a partial clone must not turn a diff into a download
        "LC_ALL": "C",
    }
    return subprocess.Popen(
        [program, "-C", repo, "cat-file", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
