"""An MCP server made with the official SDK: over stdio, or with a port over streamable HTTP."""

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image

server = MCPServer("with-sdk", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def name_of(number: int) -> str:
    """Name a ship."""
    return ["Cap San Diego", "Rickmer Rickmers"][number]


@server.tool()
def names() -> list[str]:
    """Name all ships."""
    return ["Cap San Diego", "Rickmer Rickmers"]


@server.tool()
def position() -> dict[str, float]:
    """Tell where a ship is."""
    return {"north": 53.5, "east": 9.9}


@server.tool()
def secret_of(ctx: Context) -> str:
    """Say which headers came along."""
    request = ctx.request_context.request
    return str(dict(request.headers)) if request is not None else "none"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("this is why")


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG\r\n\x1a\n", format="png")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(sys.argv[1], flush=True)
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
