"""ripgrep as a sieve: it names the files that cannot match, so that the exact search need not look at them.

It is not let near the workspace: it opens paths by itself, which a program that swaps folders for links could
turn to a file outside, and whether that one matches would show in the result. It gets the contents of files
that were read through the confined walk, one after the other, as its stdin. Nor does it say what is shown:
each file that it lets through is searched again. So a difference between the two could lose a match, never
show a wrong one, and only patterns that mean the same to both come here (`rust_patterns`).
"""

import bisect
import os
import subprocess
import tempfile
from itertools import accumulate
from typing import IO

from halo.tools.rust_patterns import translate

_MATCHES = 2000  # in one batch; files behind the last of so many are let through
_MEMORY = "32M"  # for the automaton that it builds as it goes; its own default is 1 GB

_OPTIONS = (
    *("--no-config", "--no-messages", "--color=never", "--no-heading", "--no-filename", "--no-mmap"),
    *("--text", "--encoding=none", "--byte-offset", "--no-line-number", f"--max-count={_MATCHES}"),
    *("--max-columns=1", f"--dfa-size-limit={_MEMORY}", "--regex-size-limit=16M"),
)


class Sieve:
    """Tells which of some files might hold a line that matches; all of them where it cannot tell."""

    def __init__(self, program: str | None, pattern: str) -> None:
        self._program = program
        self._pattern = translate(pattern) if program is not None else None

    @property
    def works(self) -> bool:
        """Whether it is of any use for the pattern."""
        return self._program is not None and self._pattern is not None

    def may_match(self, files: list[bytes], seconds: float) -> list[bool]:
        """Judge each file; after `seconds` without an answer all of them may match."""
        likely = [not self._readable(data) for data in files]
        fed = [number for number, unread in enumerate(likely) if not unread]
        found = self._offsets([files[number] for number in fed], seconds) if fed else []
        if found is None:
            return [True] * len(files)
        # Where each file ends, behind a first line that is nobody's.
        ends = list(accumulate((len(_lines(files[number])) for number in fed), initial=1))
        hits = [bisect.bisect_right(ends, offset) - 1 for offset in found]
        if len(found) >= _MATCHES:
            hits += range(hits[-1], len(fed))
        for hit in hits:
            if hit >= 0:
                likely[fed[hit]] = True
        return likely

    def _readable(self, data: bytes) -> bool:
        """Tell whether both searches see the same text in a file."""
        if data.isascii():
            return True
        if self._pattern is None or self._pattern.ascii_only:
            return False
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def _offsets(self, files: list[bytes], seconds: float) -> list[int] | None:
        """Return where the first matching lines begin in all files together; None if there is no answer."""
        assert self._program is not None and self._pattern is not None  # noqa: S101, PT018  # it works
        try:
            with _unnamed_file() as file:
                # An empty line first: a mark at the beginning of the whole might be taken off.
                file.writelines([b"\n", *map(_lines, files)])
                file.seek(0)
                done = subprocess.run(
                    [self._program, *_OPTIONS, "-e", self._pattern.text, "-"],
                    stdin=file,
                    capture_output=True,
                    timeout=max(seconds, 0.001),
                    env={name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ},
                    check=False,
                )
            if done.returncode in (0, 1):  # something was found, or nothing
                return [int(line.partition(b":")[0]) for line in done.stdout.split(b"\n") if line]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
        self._pattern = None  # it does not take the pattern, takes too long, or is not the program known here
        return None


def _unnamed_file() -> IO[bytes]:
    """Open a file that nobody else can: a pipe takes a few KB at a time, which is slower than the search."""
    in_memory = getattr(os, "memfd_create", None)  # Linux
    return tempfile.TemporaryFile() if in_memory is None else open(in_memory("halo"), "w+b")


def _lines(data: bytes) -> bytes:
    return data if data.endswith(b"\n") or not data else data + b"\n"
