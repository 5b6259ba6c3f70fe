"""A workspace as an MCP server: what `halo.sessions.offer` has, in the words of the protocol."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import anyio
import click
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    Tool,
)

from halo.cli.mcp_resources import refusing, resource_handlers
from halo.errors import HaloError
from halo.models.adapter import Notice
from halo.records.events import ToolResultAdded
from halo.sessions.offer import Offer
from halo.sessions.shown_sessions import ShownSessions
from halo.tools.threads import ToolThreads
from halo.version import __version__

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from halo.sessions.reply import Reply

_ASK = "ask_"
_HOST = "127.0.0.1"
_LONGEST_MESSAGE = 16 << 20  # bytes; a client that says more at once is no client
_DONE = frozenset({"done", "max_tokens"})


def server_of(offer: Offer, sessions: ShownSessions, name: str) -> "Server[Any]":
    """Make a server of what is offered."""

    async def list_prompts(
        _: "ServerRequestContext[Any]", __: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=[
                Prompt(
                    name=each.name,
                    description=each.description,
                    arguments=[PromptArgument(name=each.argument, description=each.argument_description)],
                )
                for each in refusing(offer.prompts)
            ]
        )

    async def get_prompt(_: "ServerRequestContext[Any]", params: GetPromptRequestParams) -> GetPromptResult:
        given = params.arguments or {}
        argument = given.get("arguments" if params.name.startswith("skill/") else "directory", "")
        text = refusing(lambda: offer.prompt(params.name, argument))
        return GetPromptResult(
            messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
        )

    async def list_tools(
        _: "ServerRequestContext[Any]", __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        schema = {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "What to ask, complete in itself."}},
            "required": ["message"],
            "additionalProperties": False,
        }
        return ListToolsResult(
            tools=[
                Tool(
                    name=_ASK + agent.id,
                    description=agent.description or f"Ask {agent.name}.",
                    input_schema=schema,
                )
                for agent in refusing(offer.agents)
            ]
        )

    async def call_tool(
        context: "ServerRequestContext[Any]", params: CallToolRequestParams
    ) -> CallToolResult:
        message = (params.arguments or {}).get("message")
        if not params.name.startswith(_ASK) or not isinstance(message, str):
            return _failed(f"{params.name} is none of these tools, or was given no message")
        return await _ask(offer, params.name.removeprefix(_ASK), message, context)

    return Server(
        name,
        version=__version__,
        **resource_handlers(sessions),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _failed(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=why)], is_error=True)


async def _ask(
    offer: Offer, agent: str, message: str, context: "ServerRequestContext[Any]"
) -> CallToolResult:
    """Run a turn. Tools that ran are its progress; a client that gives up interrupts it."""
    steps: asyncio.Queue[str] = asyncio.Queue()

    def show(event: object) -> None:
        if isinstance(event, Notice):
            click.echo(event.text, err=True)
        elif isinstance(event, ToolResultAdded):
            steps.put_nowait(f"{event.tool} {'failed' if event.result.is_error else 'done'}")

    # A task of its own: what cancels a request cancels every await in it, also those that tidy up.
    turn = asyncio.ensure_future(offer.ask(agent, message, show))
    report = asyncio.ensure_future(_report(steps, context))
    try:
        reply = await asyncio.shield(turn)
    except HaloError as error:
        return _failed(str(error))
    finally:
        with anyio.CancelScope(shield=True):
            await _end(turn)
            await _end(report)
    return _answer(reply)


async def _report(steps: "asyncio.Queue[str]", context: "ServerRequestContext[Any]") -> None:
    count = 0
    while True:
        step = await steps.get()
        count += 1
        await context.session.report_progress(count, message=step)


async def _end(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # it was raised where the answer is made, or nobody is there to hear it


def _answer(reply: "Reply") -> CallToolResult:
    text = reply.text if reply.reason == "done" else f"{reply.text}\n[the turn ended: {reply.reason}]"
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=reply.reason not in _DONE)


def serve_stdio(offer: Offer, sessions: ShownSessions, name: str) -> None:
    """Serve one client on stdin and stdout until it goes."""
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        _tools_in_threads()
        server = server_of(offer, sessions, name)
        # The SDK reads stdin in a thread, which Ctrl-C would wait for until the client says something.
        lines: Any = await _lines_of_stdin()
        async with stdio_server(stdin=lines) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    asyncio.run(run())


async def _lines_of_stdin() -> AsyncIterator[str] | None:
    """Return the lines of stdin as they come, and give stdin to nobody else; None where it is no pipe."""
    mode = os.fstat(0).st_mode
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    private = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    reader = asyncio.StreamReader(limit=_LONGEST_MESSAGE)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(private, "rb", 0)
    )

    async def lines() -> AsyncIterator[str]:
        while line := await reader.readline():
            yield line.decode("utf-8", "replace")

    return lines()


def serve_http(offer: Offer, sessions: ShownSessions, name: str, port: int) -> None:
    """Serve on `port` of this machine until Ctrl-C; 0 takes a free one. The SDK refuses foreign names."""
    import socket

    import uvicorn

    async def run() -> None:
        _tools_in_threads()
        app = server_of(offer, sessions, name).streamable_http_app(host=_HOST)
        config = uvicorn.Config(app, log_level="warning", log_config=None)
        with socket.create_server((_HOST, port)) as listening:
            click.echo(f"http://{_HOST}:{listening.getsockname()[1]}/mcp", err=True)
            await uvicorn.Server(config).serve(sockets=[listening])

    asyncio.run(run())


def _tools_in_threads() -> None:
    asyncio.get_running_loop().set_default_executor(ToolThreads())
