"""Which servers a workspace needs a lock for."""

from halo.errors import HaloError
from halo.files.tree import Tree
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.mcp.defined import defined_servers


def wanted_servers(tree: Tree) -> tuple[str, ...]:
    """Return the servers that agents list and those that the workspace's settings define, sorted.

    Others of the machine's settings are nobody's business here: the lock is committed.
    """
    wanted = {name for name, defined in defined_servers(tree).items() if defined.scope == "workspace"}
    for agent_id in list_agents(tree):
        try:
            listed = read_agent(tree, agent_id).config.mcp
        except HaloError:
            continue  # whoever compiles it says what is wrong
        wanted |= {entry.partition("/")[0] for entry in listed}
    return tuple(sorted(wanted))
