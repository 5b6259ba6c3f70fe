"""The MCP servers of a turn: which of them may be used, and what each is given."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from halo.errors import HaloError
from halo.sessions.access import tool_settings
from halo.sessions.rights import sandbox_opening
from halo.tools.base import ToolFailure
from halo.tools.mcp.engine import MISSING, is_installed
from halo.tools.mcp.launch import Launch, launch
from halo.tools.mcp.servers import McpServers
from halo.tools.sandbox.mounts import Opening
from halo.workspace.mcp.defined import Defined, defined_servers
from halo.workspace.mcp.lock import LockedServer, read_locked
from halo.workspace.trust import Grants

if TYPE_CHECKING:
    from halo.records.artifacts import Artifact
    from halo.sessions.desk import Desk
    from halo.workspace.places import Places


def turn_servers(
    desk: "Desk", artifact: "Artifact", grants: Grants, tell: Callable[[str], None]
) -> McpServers:
    """Return the servers whose tools `artifact` offers; `tell` shows a notice to the user.

    One that may not be used, or cannot, is said at once, and the turn goes on without it.
    """
    runtime = artifact.manifest.runtime
    tools = runtime.mcp if runtime is not None else ()
    names = tuple(dict.fromkeys(tool.server for tool in tools))
    starts = ready_servers(desk.builder.places, names, desk.environ, grants) if names else {}
    for name, start in starts.items():
        if isinstance(start, str):
            tell(f"warning: the MCP server {name} is not used: {start}")

    def locked(server: str) -> LockedServer | None:
        try:
            return read_locked(desk.tree, server)
        except HaloError:
            return None  # a damaged lock is said when prompts are compiled from it

    return McpServers(tools, starts, locked, tell)


def ready_servers(
    places: "Places", names: tuple[str, ...], environ: Mapping[str, str], grants: Grants
) -> dict[str, Launch | str]:
    """Say of each server how it is started or reached, or why it is not."""
    tree = places.tree()
    defined = defined_servers(tree)
    opening = sandbox_opening(places, tool_settings(tree, grants))
    return {name: _ready(name, defined.get(name), grants, places, environ, opening) for name in names}


def _ready(
    name: str,
    defined: Defined | None,
    grants: Grants,
    places: "Places",
    environ: Mapping[str, str],
    opening: Opening,
) -> Launch | str:
    if defined is None:
        return "general.mcp.servers in settings.yaml does not define it on this machine"
    if not grants.server(name, defined):
        return "this workspace defines it, and nobody has allowed that; halo trust shows what it is"
    if not is_installed():
        return MISSING
    try:
        return launch(name, defined.server, places.workspace, environ, opening)
    except ToolFailure as failure:
        return str(failure)
