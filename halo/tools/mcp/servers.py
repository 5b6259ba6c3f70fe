"""The MCP tools of one turn: which server each belongs to, and whether that is still what was locked."""

from collections.abc import Callable, Mapping
from typing import Any

from halo.records.artifacts import McpTool
from halo.tools.base import Answer, Surroundings, Tool, ToolFailure
from halo.tools.mcp.connection import Connection
from halo.tools.mcp.launch import Launch
from halo.tools.mcp.listing import Listing
from halo.tools.mcp.results import answer_of
from halo.workspace.mcp.differences import tool_changes
from halo.workspace.mcp.lock import LockedServer


class McpServers:
    """The servers that a turn may need.

    `starts` has how each is started or reached, or the reason why it is not. `locked` returns what a server
    is locked to now, None where that is not known. `tell` shows a notice to the user.
    """

    def __init__(
        self,
        tools: tuple[McpTool, ...],
        starts: Mapping[str, Launch | str],
        locked: Callable[[str], LockedServer | None],
        tell: Callable[[str], None],
    ) -> None:
        self._starts = starts
        self._locked = locked
        self._tell = tell
        self._connections: dict[str, Connection] = {}
        self._told: set[str] = set()
        self.tools: dict[str, Tool] = {tool.name: self._tool(tool) for tool in tools}

    async def aclose(self) -> None:
        """End all connections; no process and no task is left, however often this is cancelled."""
        import asyncio

        closing = (each.close() for each in self._connections.values())
        # With `return_exceptions` all of them are waited for, also when this is cancelled: they are, too.
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if error is not None:
                raise error

    def _tool(self, tool: McpTool) -> Tool:
        async def run(arguments: Mapping[str, Any], around: Surroundings) -> Answer:
            return await self._call(tool, arguments, around)

        return run

    async def _call(self, tool: McpTool, arguments: Mapping[str, Any], around: Surroundings) -> Answer:
        start = self._starts.get(tool.server, "it is not defined here")
        if isinstance(start, str):
            raise ToolFailure(f"the MCP server {tool.server} is not used: {start}; do without it")
        connection = self._connections.get(tool.server)
        if connection is None:
            connection = Connection(start, free=around.access == "full")
            self._connections[tool.server] = connection
        try:
            listing = await connection.listing()
            self._compare(tool.server, listing)
            self._refuse_another(tool, listing)
            result = await connection.call(tool.tool, dict(arguments))
        except ToolFailure as failure:
            self._tell_once(connection, str(failure))
            raise
        answer = answer_of(result)
        answer = answer._replace(text=start.masked(answer.text))
        if result.is_error:
            raise ToolFailure(answer.text)
        return answer

    def _compare(self, server: str, listing: Listing) -> None:
        """Tell once a turn that a server has other tools than when the user last looked."""
        if f"{server}: compared" in self._told:
            return
        self._told.add(f"{server}: compared")
        before = self._locked(server)
        changes = tool_changes(before, listing.locked) if before is not None else ()
        if changes:
            what = ", ".join(f"{change.kind} {change.name}" for change in changes[:8])
            more = f" and {len(changes) - 8} more" if len(changes) > 8 else ""
            self._tell(
                f"warning: the tools of the MCP server {server} are not those of mcp.lock.json: "
                f"{what}{more}; halo mcp lock {server} shows how, and takes them"
            )

    @staticmethod
    def _refuse_another(tool: McpTool, listing: Listing) -> None:
        live = listing.locked.find(tool.tool)
        if live is None or live.digest != tool.digest:
            state = "is gone from" if live is None else "is not any more what it was on"
            raise ToolFailure(
                f"{tool.name} {state} the MCP server {tool.server}, so it is not called until the user has "
                f"looked at it: halo mcp lock {tool.server}"
            )

    def _tell_once(self, connection: Connection, failure: str) -> None:
        """Tell the user of a failure with what the program wrote to stderr, which no model is given."""
        errors = connection.errors
        if errors and errors not in self._told:
            self._told.add(errors)
            self._tell(f"warning: {failure}\n{errors}")
