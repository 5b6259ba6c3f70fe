"""Trust: what a workspace asks of this machine, and whether the user granted exactly that.

A workspace may come from a stranger. Before `halo trust` recorded the digest of what it asks for, no key goes
to an endpoint of its choice, no environment variable and no value of the machine's settings to which only it
lays claim gets into a prompt, no key of its own is used, no model file that it names is loaded, and no MCP
server that it defines is started or spoken to; its agents only read, its settings open nothing to tools, and
commands get no variable and no secret of the machine through it. Any change of what it asks for asks again.
"""

import msgspec

from halo.files.tree import Tree
from halo.workspace.agents import read_agent
from halo.workspace.connections import Connection, leads_out
from halo.workspace.connections import definition_of as definition_of_connection
from halo.workspace.demands import (
    Demands,
    definition_of,
    is_claimed_by_workspace,
    is_declared_by_user,
    read_demands,
)
from halo.workspace.locate import BUNDLE, HALO_DIR
from halo.workspace.mcp.defined import Defined
from halo.workspace.models.choice import choose_model
from halo.workspace.settings.files import WORKSPACE_SETTINGS, Setting
from halo.workspace.settings.general import read_general
from halo.workspace.tool_demands import is_of_workspace
from halo.workspace.trust_file import name_of, read_trust


class Grants(msgspec.Struct, frozen=True):
    """What this workspace may use: nothing, or exactly what it demands now and the user has seen.

    Demands are read from the layers, never from an artifact: a build folder may come from a stranger too.
    `bundled`: the workspace was unpacked from a bundle. Then no layer says who asks for what, so nothing is
    granted but the values that the user's own folders declare.
    """

    demands: Demands = Demands()
    bundled: bool = False

    def endpoint(self, tree: Tree, agent_id: str, provider: str, endpoint: str, profile: str = "") -> bool:
        """Tell whether `agent_id`, with the models of `profile`, may send the provider's key to `endpoint`.

        What counts is whose file the endpoint stands in, not whose agent it is: agents of the global folder
        and of the templates are the user's own, and so are aliases and profiles of the global settings.
        """
        if self.bundled:
            return False
        chosen = choose_model(tree, read_agent(tree, agent_id), read_general(tree), profile)
        if (chosen.model.provider, chosen.model.endpoint) != (provider, endpoint):
            return False
        if chosen.scope != "workspace":
            return True
        return (chosen.setting or agent_id, provider, endpoint) in self.demands.endpoints

    def value(self, tree: Tree, name: str) -> bool:
        """Tell whether the parameter `name` of the machine's settings may stand in a prompt."""
        if self.bundled:
            return is_declared_by_user(tree, name)
        return name in self.demands.values or not is_claimed_by_workspace(tree, name)

    def key(self, provider: str) -> bool:
        """Tell whether a key that stands literally in the workspace's settings may be used."""
        return provider in self.demands.keys

    def model_file(self, tree: Tree, agent_id: str, profile: str = "") -> bool:
        """Tell whether the model file that `agent_id` is bound to may be loaded; see `endpoint`."""
        if self.bundled:
            return False
        chosen = choose_model(tree, read_agent(tree, agent_id), read_general(tree), profile)
        if chosen.scope != "workspace":
            return True
        return (chosen.setting or agent_id, chosen.model.id) in self.demands.model_files

    def server(self, name: str, defined: Defined) -> bool:
        """Tell whether an MCP server may be started or spoken to; those of the machine's settings may."""
        if defined.scope != "workspace":
            return True
        return (name, definition_of(defined.server)) in self.demands.mcp

    def channel(self, connection: Connection) -> bool:
        """Tell whether a channel may be reached so; as the machine's settings say, always."""
        if connection.scope != "workspace" or not leads_out(connection.connect):
            return True
        return (connection.name, definition_of_connection(connection.connect)) in self.demands.channels

    @property
    def changes(self) -> bool:
        """Whether agents may do more here than read."""
        return bool(self.demands.access)

    def opens(self, setting: str, value: str) -> bool:
        """Tell whether `general.tools` of the workspace may open this."""
        return (setting, value) in self.demands.tools

    def secret(self, tree: Tree, name: str, setting: Setting) -> bool:
        """Tell whether commands may be given the secret `name`: `<id>.params.<key>` or `<id>.secrets.<key>`.

        One that stands literally in the workspace's settings is the workspace's own.
        """
        if self.bundled:
            return False
        if setting.source == WORKSPACE_SETTINGS:
            return {(name, variable) for variable in setting.names} <= set(self.demands.variables)
        return name in self.demands.secrets or not is_of_workspace(tree, name.partition(".")[0])

    def environment(self, setting: str, variables: tuple[str, ...]) -> bool:
        """Tell whether `setting` of the workspace may bring these variables into a prompt."""
        return {(setting, variable) for variable in variables} <= set(self.demands.environment)


def read_grants(tree: Tree, workspace: str, home: str) -> Grants:
    """Return what the user granted; nothing of a kind of which something else is demanded by now."""
    if tree.kind(f"workspace:{HALO_DIR}/{BUNDLE}") != "absent":
        return Grants(bundled=True)
    recorded = read_trust(home).get(name_of(workspace))
    if recorded is None:
        return Grants()
    return Grants(read_demands(tree).among(recorded))
