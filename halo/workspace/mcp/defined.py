"""Which file defines a server. It decides who asks for it, which is what trust is about."""

from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Scope
from halo.workspace.mcp.servers import McpServer
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS
from halo.workspace.settings.general import read_general_of


class Defined(NamedTuple):
    """A server and the settings file that defines it; `scope` is that of the file."""

    server: McpServer
    source: str
    scope: Scope


def defined_servers(tree: Tree) -> dict[str, Defined]:
    """Return all servers by name, sorted; those of the workspace hide those of the machine.

    Raises `LayerError` with file and line for broken settings.
    """
    found = {
        name: Defined(server, GLOBAL_SETTINGS, "global")
        for name, server in read_general_of(tree, GLOBAL_SETTINGS).mcp.servers.items()
    }
    for name, server in read_general_of(tree, WORKSPACE_SETTINGS).mcp.servers.items():
        found[name] = Defined(server, WORKSPACE_SETTINGS, "workspace")
    return dict(sorted(found.items()))
