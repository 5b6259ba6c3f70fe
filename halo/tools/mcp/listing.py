"""The tools that a server has now, in the form in which they are locked."""

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from halo.files.canonical import canonical_json
from halo.tools.base import ToolFailure, brief
from halo.workspace.mcp.lock import LockedServer, LockedTool
from halo.workspace.mcp.schemas import tool_problem

if TYPE_CHECKING:
    import mcp_types
    from mcp import ClientSession

MOST_TOOLS = 500
_MOST_PAGES = 100


class Listing(NamedTuple):
    """What can be locked, and what cannot with the reason why."""

    locked: LockedServer
    refused: tuple[tuple[str, str], ...] = ()


async def list_tools(session: "ClientSession") -> Listing:
    """Ask for all pages. Raises `ToolFailure` for a list that does not end."""
    from mcp_types import PaginatedRequestParams

    found: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        found.extend(page.tools)
        cursor = page.next_cursor
        if len(found) > MOST_TOOLS:
            raise ToolFailure(f"an MCP server lists more than {MOST_TOOLS} tools")
        if not cursor:
            return _listing(found)
    raise ToolFailure(f"an MCP server lists its tools on more than {_MOST_PAGES} pages")


def _listing(tools: "list[mcp_types.Tool]") -> Listing:
    kept: dict[str, LockedTool] = {}
    refused: list[tuple[str, str]] = []
    for tool in tools:
        annotations = (
            tool.annotations.model_dump(by_alias=True, exclude_none=True, mode="json")
            if tool.annotations is not None
            else {}
        )
        problem = _problem(tool, annotations)
        if not problem and tool.name in kept:
            problem = "another tool has the same name"
        if problem:
            refused.append((brief(tool.name), problem))
        else:
            kept[tool.name] = _locked(tool, annotations)
    return Listing(LockedServer.of(tuple(kept.values())), tuple(refused))


def _problem(tool: "mcp_types.Tool", annotations: dict[str, Any]) -> str:
    try:
        return tool_problem(tool.name, tool.description or "", tool.input_schema, annotations)
    except (ValueError, OverflowError, TypeError) as error:
        return f"its schema cannot be written as JSON: {brief(str(error))}"


def _locked(tool: "mcp_types.Tool", annotations: dict[str, Any]) -> LockedTool:
    """Make what is read again from the file equal to what the server says: numbers have many spellings."""
    made = LockedTool(tool.name, tool.input_schema, tool.description or "", annotations)
    return msgspec.json.decode(canonical_json(made), type=LockedTool)
