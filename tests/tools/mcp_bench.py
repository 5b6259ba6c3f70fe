"""What the tests of MCP clients share: turns with a server, and what is left of its processes."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from halo.files.roots import ConfinedRoot
from halo.records.artifacts import McpTool
from halo.records.messages import ToolCall
from halo.records.tools import ToolSpec
from halo.tools.base import Surroundings
from halo.tools.mcp.connection import Connection
from halo.tools.mcp.launch import launch
from halo.tools.mcp.servers import McpServers
from halo.tools.toolbox import Toolbox
from halo.workspace.mcp.schemas import fit_schema
from halo.workspace.mcp.servers import McpServer

SERVERS = Path(__file__).resolve().parent / "mcp_servers"


def plain(*arguments, **fields):
    """The server without the SDK."""
    return McpServer(command=(sys.executable, "-S", str(SERVERS / "plain.py"), *arguments), **fields)


def with_sdk(**fields):
    return McpServer(command=(sys.executable, str(SERVERS / "with_sdk.py")), **fields)


class Turn:
    """The MCP tools of one turn in `workspace`, locked to what the server says when the turn is made.

    `locked_as` is the server whose tools are in the lock, where that is another one.
    """

    def __init__(self, server, workspace, *, locked_as=None, access="full", environ=None, opening=None):
        self.workspace = str(workspace)
        environ = {"PATH": os.environ["PATH"], "HOME": self.workspace, **(environ or {})}
        self.start = launch("s", server, self.workspace, environ, opening)
        before = launch("s", locked_as or server, self.workspace, environ, opening)
        self.listing = asyncio.run(self.look(before))
        self.notices = []
        self.access = access

    @staticmethod
    async def look(start):
        connection = Connection(start, free=True)
        try:
            return await connection.listing()
        finally:
            await connection.close()

    def open(self):
        """(servers, toolbox) as a turn has them."""
        tools = self.listing.locked.tools
        servers = McpServers(
            tuple(McpTool(f"mcp__s__{t.name}", "s", t.name, t.digest) for t in tools),
            {"s": self.start},
            lambda _: self.listing.locked,
            self.notices.append,
        )
        around = Surroundings(ConfinedRoot(self.workspace), {}, lambda *_: None, access=self.access)
        specs = tuple(
            ToolSpec(f"mcp__s__{t.name}", "", fit_schema(t.input_schema), "workspace") for t in tools
        )
        return servers, Toolbox(specs, around, servers.tools)

    def calls(self, *calls):
        """Run calls, each (tool, arguments), one after the other in one turn; return their results."""
        return asyncio.run(self.run(*calls))

    async def run(self, *calls):
        servers, toolbox = self.open()
        try:
            return [await toolbox.run(call(name, **arguments)) for name, arguments in calls]
        finally:
            await servers.aclose()

    def call(self, name, /, **arguments):
        return self.calls((name, arguments))[0]


def call(name, /, **arguments):
    return ToolCall("c", f"mcp__s__{name}", json.dumps(arguments))


def is_gone(pid, seconds=5):
    """Wait until a process is gone, or a zombie that waits for its parent."""
    for _ in range(int(seconds / 0.05)):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
