"""Tools of MCP servers as an agent is told of them: from the lock alone, never from a server."""

from typing import NamedTuple

from halo.compiler.compilation import Compilation
from halo.errors import near_miss_hint
from halo.records.artifacts import McpTool
from halo.records.diagnostics import Diagnostic
from halo.records.targets import Access, permits
from halo.records.tools import ToolSpec
from halo.workspace.hidden import find_hidden, named
from halo.workspace.mcp.defined import defined_servers
from halo.workspace.mcp.lock import MCP_LOCK, LockedTool, read_lock, read_locked
from halo.workspace.mcp.names import PREFIX, tool_names
from halo.workspace.mcp.schemas import fit_schema, fit_text, left_out, texts_of

# What a server does is its own affair: it may change files and reach out, whatever it says of itself.
_ACCESS: Access = "workspace"


class McpOffer(NamedTuple):
    """The tools, and where each comes from."""

    specs: tuple[ToolSpec, ...] = ()
    origins: tuple[McpTool, ...] = ()


def mcp_tools(job: Compilation) -> McpOffer:
    """Return the tools that `mcp:` of agent.yaml lists, in its order, those of a whole server by name.

    Raises `LayerError` at the line of a server or tool that is not locked.
    """
    if not permits(job.target.access, _ACCESS):
        return McpOffer()
    listed = _listed(job)
    names = tool_names(listed)
    specs, origins = [], []
    for (server, tool), locked in listed.items():
        name = names[server, tool]
        _remark(job, server, locked, name)
        description = fit_text(locked.description) or f"The tool {tool} of the MCP server {server}."
        specs.append(ToolSpec(name, description, fit_schema(locked.input_schema), access=_ACCESS))
        origins.append(McpTool(name, server, tool, locked.digest))
    return McpOffer(tuple(specs), tuple(origins))


def _listed(job: Compilation) -> dict[tuple[str, str], LockedTool]:
    found: dict[tuple[str, str], LockedTool] = {}
    for i, entry in enumerate(job.agent.config.mcp):
        server, slash, name = entry.partition("/")
        locked = read_locked(job.tree, server)
        if locked is None:
            raise _not_locked(job, i, server)
        tool = locked.find(name)
        if slash and tool is None:
            raise job.agent.document.error(
                f"the MCP server {server!r} is not locked with a tool {name!r}",
                "mcp",
                i,
                hint=near_miss_hint(name, [each.name for each in locked.tools]),
            )
        found |= {(server, each.name): each for each in ((tool,) if tool is not None else locked.tools)}
    return found


def _not_locked(job: Compilation, position: int, server: str) -> Exception:
    defined = defined_servers(job.tree)
    if server in defined:
        message, hint = f"the MCP server {server!r} is not in mcp.lock.json", f"halo mcp lock {server}"
    else:
        known = sorted({*defined, *read_lock(job.tree).servers})
        message, hint = f"unknown MCP server {server!r}", near_miss_hint(server, known)
        if not known:
            hint = "general.mcp.servers in settings.yaml defines none"
    return job.agent.document.error(message, "mcp", position, hint=hint)


def _remark(job: Compilation, server: str, tool: LockedTool, name: str) -> None:
    """Say what is not as the server has it."""
    said = f"{server}/{tool.name}"
    hidden = list(find_hidden(texts_of(tool.description, tool.input_schema)))
    if hidden:
        job.say(Diagnostic("hidden-characters", "error", f"{said} holds {named(hidden)}", MCP_LOCK))
    if name != f"{PREFIX}{server}__{tool.name}":
        job.say(Diagnostic("mcp-tool-adapted", "info", f"{said} is called {name}", MCP_LOCK))
    if out := left_out(tool.input_schema):
        message = f"{said}: {', '.join(out)} at the top of its schema is left out; no provider takes it"
        job.say(Diagnostic("mcp-tool-adapted", "info", message, MCP_LOCK))
