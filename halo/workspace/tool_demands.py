"""What a workspace asks for when its agents are to do more than read: tools, openings, secrets."""

from collections.abc import Iterable, Iterator

from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.records.targets import permits
from halo.records.tools import LISTABLE_TOOLS
from halo.workspace.agents import Agent
from halo.workspace.ids import folders_of, is_id
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    dotted_keys,
    lookup,
    read_settings,
)
from halo.workspace.settings.general import ToolSettings
from halo.workspace.settings.params import Params, read_params

# Stands for every agent that is not the workspace's, and for whatever tools it has.
OWN_AGENTS = ("*", "*")


def changing_tools(agent: Agent) -> tuple[str, ...]:
    """Return the tools of an agent that need more than `readonly`: they change, run or reach something."""
    listed = (t for t in agent.config.tools if not permits("readonly", LISTABLE_TOOLS[t].access))
    return (*listed, *(f"mcp:{server}" for server in agent.config.mcp))


def access_demands(agents: Iterable[Agent]) -> Iterator[tuple[str, str]]:
    """Yield agent and tool for agents of the workspace; one entry stands for all others."""
    others = False
    for agent in agents:
        tools = changing_tools(agent)
        if agent.scope == "workspace":
            yield from ((agent.id, tool) for tool in tools)
        else:
            others = others or bool(tools)
    if others:
        yield OWN_AGENTS


def opening_demands(tools: ToolSettings, machine: ToolSettings) -> Iterator[tuple[str, str]]:
    """Yield what `general.tools` of the workspace opens: the setting and the value.

    A longer time for commands is one than the machine's settings give them.
    """
    if tools.network:
        yield ("network", "true")
    yield from (("private_hosts", host) for host in sorted(set(tools.private_hosts)))
    yield from (("writable", folder) for folder in sorted(set(tools.writable)))
    if tools.shell_seconds is not None and tools.shell_seconds > machine.seconds:
        yield ("shell_seconds", seconds_text(tools.shell_seconds))


def seconds_text(seconds: float) -> str:
    """Write a time as it is asked for and granted."""
    return str(int(seconds)) if seconds.is_integer() else str(seconds)


def variable_demands(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield secret and variable where the workspace's settings would hand the variable to commands."""
    for owner in _owners(tree, WORKSPACE_SETTINGS):
        for name, setting in secrets_of(tree, WORKSPACE_SETTINGS, owner):
            yield from ((name, variable) for variable in setting.names)


def secret_demands(tree: Tree) -> Iterator[str]:
    """Yield secrets of the machine's settings that belong to an agent or a skill of the workspace."""
    for owner in _owners(tree, GLOBAL_SETTINGS):
        if is_of_workspace(tree, owner):
            yield from (name for name, _ in secrets_of(tree, GLOBAL_SETTINGS, owner))


def is_of_workspace(tree: Tree, owner: str) -> bool:
    """Tell whether the workspace defines an agent or a skill of this id, whoever else does."""
    return "workspace" in _scopes(tree, owner)


def secrets_of(tree: Tree, source: str, owner: str) -> Iterator[tuple[str, Setting]]:
    """Yield the secrets that a settings file holds for an agent or a skill, with their full names.

    These are all of `secrets:`, and the parameters that are never text: declared secret, or with a `<<NAME>>`
    that no declaration lets in. A provider's key belongs to the provider alone.
    """
    document = read_settings(tree, source)
    block = document.value.get(owner)
    if not isinstance(block, dict):
        return
    params = read_params(tree, owner)
    for part in ("params", "secrets"):
        if part == "secrets" and owner in PROVIDERS:
            continue
        for key in dotted_keys(block.get(part)):
            name = f"{owner}.{part}.{key}"
            setting = lookup(document, name)
            if setting is not None and (part == "secrets" or counts_as_secret(params, key, setting)):
                yield name, setting


def counts_as_secret(params: Params, key: str, setting: Setting) -> bool:
    """Tell whether the value of a parameter is kept from every text."""
    opened = params.opened_by_user if setting.source == GLOBAL_SETTINGS else params.opened
    return params.is_secret(key) or (bool(setting.names) and key not in opened)


def _owners(tree: Tree, source: str) -> Iterator[str]:
    """Yield the ids in a settings file that belong to an agent or a skill."""
    for owner in read_settings(tree, source).value:
        if is_id(owner) and _scopes(tree, owner):
            yield owner


def _scopes(tree: Tree, owner: str) -> set[str]:
    return {scope for kind in ("skills", "agents") for _, scope in folders_of(tree, kind, owner)}
