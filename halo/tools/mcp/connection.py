"""One connection to a server: opened when it is first needed, closed with the turn.

The SDK's contexts must be entered and left by one task, while calls come from any: so a task of its own holds
the connection open until it is told to close.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from halo.tools.base import ToolFailure, brief
from halo.tools.mcp.launch import Launch, plain_command, sandboxed_command
from halo.tools.mcp.listing import Listing, list_tools
from halo.tools.mcp.programs import Program, streams_of

if TYPE_CHECKING:
    import mcp_types
    from mcp import ClientSession
    from pydantic import ValidationError

START_SECONDS = 30.0
_CLOSE_SECONDS = 10.0


class Connection:
    """A connection to the server of `start`; a program runs in a sandbox unless it is `free`."""

    def __init__(self, start: Launch, *, free: bool) -> None:
        self._start = start
        self._free = free
        self._program = Program()
        self._holder: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[tuple[ClientSession, Listing]] | None = None

    @property
    def errors(self) -> str:
        """The end of what the program wrote to stderr, without values that are secret."""
        return self._start.masked(self._program.errors)

    async def listing(self) -> Listing:
        """Connect, unless that was done, and return the tools that the server has now.

        Raises `ToolFailure`, each time the same, when it cannot be reached.
        """
        return (await self._open())[1]

    async def call(self, tool: str, arguments: dict[str, Any]) -> "mcp_types.CallToolResult":
        """Call a tool. Raises `ToolFailure` for whatever comes of it but a result."""
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        session, _ = await self._open()
        name, seconds = self._start.name, self._start.server.call_seconds
        try:
            # The deadline is ours as well: a server could put off the SDK's for ever.
            async with asyncio.timeout(seconds + 5):
                return await session.call_tool(tool, arguments, read_timeout_seconds=seconds)
        except TimeoutError:
            raise ToolFailure(f"{name} did not answer within {seconds:g} seconds") from None
        except MCPError as error:
            raise ToolFailure(self._why(error, f"did not answer within {seconds:g} seconds")) from error
        except ValidationError as error:
            raise ToolFailure(f"{name} answered something that is no result") from error
        except RuntimeError as error:
            raise ToolFailure(
                f"{name} asked for input, which it does not get: {brief(str(error))}"
            ) from error

    async def close(self) -> None:
        """End the connection and the program behind it. Nothing is left, however often this is cancelled."""
        if self._holder is None:
            return
        self._closing.set()
        try:
            await asyncio.wait({self._holder}, timeout=_CLOSE_SECONDS)
        finally:
            if not self._holder.done():
                self._holder.cancel()
            self._program.kill()
            await _outlast(self._holder)

    async def _open(self) -> "tuple[ClientSession, Listing]":
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            # It is asked for again below; what nobody asks for any more is no fault of the loop.
            self._opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())
            self._holder = asyncio.create_task(self._hold(self._opened), name=f"mcp {self._start.name}")
        return await asyncio.shield(self._opened)

    async def _hold(self, opened: "asyncio.Future[tuple[ClientSession, Listing]]") -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(START_SECONDS):
                    session = await self._enter(stack)
                    listing = await list_tools(session)
                opened.set_result((session, listing))
                await self._closing.wait()
        except asyncio.CancelledError:
            if not opened.done():
                opened.set_exception(ToolFailure(f"{self._start.name} was closed"))
            raise
        except ToolFailure as failure:
            _settle(opened, str(failure))
        except Exception as error:  # noqa: BLE001  # whatever a stranger's program did, the turn goes on
            _settle(opened, self._why(error, f"did not start within {START_SECONDS:g} seconds"))

    async def _enter(self, stack: AsyncExitStack) -> "ClientSession":
        """Enter transport and session, and agree on a version of the protocol: a new one, else one before."""
        import logging

        from mcp import ClientSession
        from mcp.shared.exceptions import MCPError
        from mcp_types import Implementation
        from pydantic import ValidationError

        from halo.version import __version__

        # What the SDK would print on stderr of a server's doings is told as a notice.
        logging.getLogger("mcp").addHandler(logging.NullHandler())

        class Session(ClientSession):
            async def validate_tool_result(self, name: str, result: "mcp_types.CallToolResult") -> None:
                """Believe it: a stranger's schema could keep the validator busy for ever."""

        streams = await self._streams(stack)
        session: ClientSession = await stack.enter_async_context(
            Session(*streams, client_info=Implementation(name="halo", version=__version__))
        )
        try:
            await session.discover()
        except (MCPError, ValidationError, RuntimeError):
            await session.initialize()
        return session

    async def _streams(self, stack: AsyncExitStack) -> tuple[Any, Any]:
        if self._start.server.url:
            from halo.tools.mcp.addresses import streams_at

            return await stack.enter_async_context(streams_at(self._start))
        try:
            if self._free:
                argv, directory = plain_command(self._start)
                environment = self._start.environment
                return await stack.enter_async_context(
                    streams_of(self._program, argv, environment, directory)
                )
            boxed = await asyncio.to_thread(sandboxed_command, self._start)
            argv, handed = stack.enter_context(boxed.started_with())
            return await stack.enter_async_context(
                streams_of(self._program, argv, boxed.environment, "/", handed)
            )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ToolFailure(
                f"the MCP server {self._start.name} could not be started: "
                f"{brief(self._start.server.command[0])}: {reason}"
            ) from error

    def _why(self, error: BaseException, late: str) -> str:
        """Say in a line what went wrong."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        name = f"the MCP server {self._start.name}"
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if self._program.fault:
            return f"{name} {self._program.fault} and was ended"
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT):
            return f"{name} {late}"
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            return f"{name} ended{self._exit_code()}"
        if isinstance(error, ValidationError):
            return f"{name} says something that the protocol does not have: {brief(_first_fault(error))}"
        if isinstance(error, MCPError):
            return f"{name} refused: {brief(self._start.masked(error.error.message))}"
        return f"{name} cannot be reached: {brief(self._start.masked(f'{type(error).__name__}: {error}'))}"

    def _exit_code(self) -> str:
        process = self._program.process
        code = process.returncode if process is not None else None
        return f" (exit code {code})" if code is not None else ""


async def _outlast(task: "asyncio.Task[None]") -> None:
    """Wait until a task that was cancelled has ended, also when cancelled meanwhile: that is a moment.

    Transports of the SDK may take longer, so there is an end to that.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _CLOSE_SECONDS
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _first_fault(error: "ValidationError") -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"


def _settle(opened: "asyncio.Future[Any]", failure: str) -> None:
    with suppress(asyncio.InvalidStateError):
        opened.set_exception(ToolFailure(failure))
