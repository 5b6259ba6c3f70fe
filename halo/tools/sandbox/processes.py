"""Runs one program to its end: its output bounded, its time bounded, and nothing of it left behind.

It gets a session and process group of its own, an environment that is exactly what is handed over, an empty
stdin and no descriptor of Halo but those that it is handed. Whatever ends it ends the whole group.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from halo.tools.sandbox.base import Ending, Executed

KEPT = 5 << 20  # bytes of each stream that are kept; more are counted
FLOOD = 64 << 20  # bytes of one stream at which the program is killed

_GRACE = 0.5  # seconds between asking a group to end and killing it
_DRAIN = 1.0  # seconds in which the last output arrives when the program has ended
_GLANCE = 0.005  # seconds between two looks at a killed program
_REAP = 5.0  # seconds for a killed program to be gone; one that hangs in the kernel is left to the system


async def run_process(
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    seconds: float,
    handed: tuple[int, ...] = (),
) -> Executed:
    """Run `argv` in `directory` for at most `seconds`, with the descriptors `handed` down to it.

    Raises OSError or ValueError when it cannot be started. Cancelling kills the group and raises
    CancelledError when it is gone.
    """
    loop = asyncio.get_running_loop()
    flooded: asyncio.Future[None] = loop.create_future()
    async with _Pipe(flooded) as out, _Pipe(flooded) as err:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out.writing,
            stderr=err.writing,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
            pass_fds=handed,
        )
        out.hand_over()
        err.hand_over()
        ended = asyncio.ensure_future(process.wait())
        try:
            ending = await _watch(ended, flooded, seconds)
            if ending != "exit":
                await _end(process, ended)
        except asyncio.CancelledError:
            await _end(process, ended)
            raise
        finally:
            _signal(process.pid, signal.SIGKILL)  # also what the program left running behind it
        # What left the group may hold the pipes open for ever; its output is not waited for.
        await asyncio.wait((out.ended, err.ended), timeout=_DRAIN)
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Executed(code, out.text(), err.text(), ending, out.dropped + err.dropped)


async def _watch(ended: "asyncio.Future[int]", flooded: "asyncio.Future[None]", seconds: float) -> Ending:
    """Wait for whatever comes first: the end, too much output, or the time."""
    waited: tuple[asyncio.Future[Any], ...] = (ended, flooded)
    await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        return "exit"
    return "output" if flooded.done() else "timeout"


async def _end(process: asyncio.subprocess.Process, ended: "asyncio.Future[int]") -> None:
    """Ask the group to end, and kill what has not after a short grace."""
    _signal(process.pid, signal.SIGTERM)
    try:
        await asyncio.wait({ended}, timeout=_GRACE)
    finally:
        _signal(process.pid, signal.SIGKILL)
        await reap(process)


async def reap(process: asyncio.subprocess.Process) -> None:
    """Wait until a killed program is gone, also when cancelled meanwhile: that is a moment.

    Left alone it would be a zombie for as long as Halo runs.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _REAP
    cancelled: asyncio.CancelledError | None = None
    # Not `process.wait()`: a task of that is cancelled when the loop ends.
    while process.returncode is None and loop.time() < until:
        try:
            await asyncio.sleep(_GLANCE)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


class _Pipe(asyncio.Protocol):
    """One stream of a program: what it wrote, up to a cap."""

    def __init__(self, flooded: "asyncio.Future[None]") -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.dropped = 0
        self.writing = -1
        self._flooded = flooded
        self._kept = bytearray()
        self._transport: asyncio.ReadTransport | None = None

    async def __aenter__(self) -> Self:
        reading, self.writing = os.pipe()
        try:
            file = os.fdopen(reading, "rb", 0)
            loop = asyncio.get_running_loop()
            self._transport, _ = await loop.connect_read_pipe(lambda: self, file)
        except BaseException:
            self.hand_over()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hand_over()
        if self._transport is not None:
            self._transport.close()

    def hand_over(self) -> None:
        """Close the end that the program has got, so that its end is seen."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def data_received(self, data: bytes) -> None:
        """Keep what there is room for, count the rest."""
        room = KEPT - len(self._kept)
        self._kept += data[:room]
        self.dropped += max(0, len(data) - room)
        if self.dropped + len(self._kept) > FLOOD and not self._flooded.done():
            self._flooded.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        """Nobody writes any more."""
        if not self.ended.done():
            self.ended.set_result(None)

    def text(self) -> str:
        """Return what was kept; bytes that are not UTF-8 become U+FFFD."""
        return self._kept.decode("utf-8", "replace")
