"""A server as a program of this machine: its streams are the protocol, and nothing of it is left behind.

The SDK has a transport for this. Ours differs where a stranger's program could hurt: what it writes is
bounded, its environment is exactly what it is given, and whatever ends the turn kills its process group.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from halo.tools.sandbox.processes import reap

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

LONGEST_MESSAGE = 16 << 20  # bytes of one message
_FLOOD = 512 << 20  # bytes of all messages of a turn
_KEPT_ERRORS = 4096  # bytes of stderr, the last ones

_LAST_WORDS = 0.5  # seconds
_GRACE = 1.0  # seconds between one way of ending a program and the next
_REAP = 5.0  # seconds for a killed program to be gone


class Program:
    """A running server. `fault` says what it did wrong; `errors` is the end of its stderr."""

    def __init__(self) -> None:
        self.fault = ""
        self.process: asyncio.subprocess.Process | None = None
        self._errors = bytearray()

    @property
    def errors(self) -> str:
        """The last that it wrote to stderr; bytes that are not UTF-8 become U+FFFD."""
        return self._errors.decode("utf-8", "replace").strip()

    def complain(self, data: bytes) -> None:
        """Keep the end of what it writes to stderr."""
        self._errors = (self._errors + data)[-_KEPT_ERRORS:]

    def kill(self) -> None:
        """Kill it and everything that it started, at once."""
        if self.process is not None:
            _signal(self.process.pid, signal.SIGKILL)


@asynccontextmanager
async def streams_of(
    program: Program,
    argv: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    handed: tuple[int, ...] = (),
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start `argv`, which is handed descriptors, and give the two streams that the SDK's session takes.

    Raises OSError when it cannot be started.
    """
    import anyio

    process = program.process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
        cwd=directory,
        start_new_session=True,
        pass_fds=handed,
        limit=LONGEST_MESSAGE,
    )
    heard, reading = anyio.create_memory_object_stream[Any](0)
    writing, to_send = anyio.create_memory_object_stream[Any](0)
    overhear = asyncio.create_task(_overhear(program, process))
    pumps = [
        overhear,
        asyncio.create_task(_hear(program, process, heard, overhear)),
        asyncio.create_task(_say(process, to_send, heard, overhear)),
    ]
    try:
        yield reading, writing
    finally:
        try:
            await _end(process)
        finally:
            program.kill()
            for pump in pumps:
                pump.cancel()
            try:
                await reap(process)
                # It goes on when this is cancelled: they have been cancelled, so that is a moment.
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                for stream in (heard, reading, writing, to_send):
                    stream.close()
                _let_go(process)


async def _hear(
    program: Program,
    process: asyncio.subprocess.Process,
    heard: "MemoryObjectSendStream[Any]",
    errors: "asyncio.Task[None]",
) -> None:
    """Hand each line of stdout on as a message, until the program ends or writes too much."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    assert process.stdout is not None  # noqa: S101  # it is a pipe
    total = 0
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError), heard:
        while not program.fault:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                await _last_words(process, errors)
                return
            except asyncio.LimitOverrunError:
                program.fault = f"sent a message of more than {LONGEST_MESSAGE >> 20} MiB"
                break
            total += len(line)
            if total > _FLOOD:
                program.fault = f"sent more than {_FLOOD >> 20} MiB"
                break
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                continue  # what some servers print beside the protocol
            await heard.send(SessionMessage(message))
    program.kill()


async def _say(
    process: asyncio.subprocess.Process,
    to_send: "MemoryObjectReceiveStream[Any]",
    heard: "MemoryObjectSendStream[Any]",
    errors: "asyncio.Task[None]",
) -> None:
    """Write each message as a line to stdin; a program that reads no more ends the connection."""
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    try:
        async for said in to_send:
            text = said.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except OSError:
        await _last_words(process, errors)
        heard.close()


async def _last_words(process: asyncio.subprocess.Process, errors: "asyncio.Task[None]") -> None:
    """Wait for what comes last: why it ended is in its exit code and on stderr, if anywhere.

    It is told when the connection ends, so those come first.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_WORDS):
            await process.wait()
            await asyncio.wait({errors})


async def _overhear(program: Program, process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None  # noqa: S101  # it is a pipe
    while data := await process.stderr.read(1 << 16):
        program.complain(data)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program as the protocol has it: close its stdin, wait, ask, kill."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE if number != signal.SIGKILL else _REAP):
                await process.wait()
                return


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "nt":
            os.kill(group, signal.SIGTERM)
        else:
            os.killpg(group, number)


def _let_go(process: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes: something that left the group may hold the others for ever."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
