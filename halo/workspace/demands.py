"""What a workspace asks of this machine: everything that needs the user's trust."""

from collections.abc import Iterator, Mapping

import msgspec

from halo.errors import HaloError
from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.connections import connection_demands
from halo.workspace.ids import folders_of, is_id
from halo.workspace.mcp.servers import McpServer
from halo.workspace.models.config import ModelConfig, settings_models
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    dotted_keys,
    lookup,
    read_settings,
)
from halo.workspace.settings.general import GENERAL, read_general_of
from halo.workspace.settings.params import PARAM, read_params
from halo.workspace.tool_demands import (
    access_demands,
    opening_demands,
    secret_demands,
    variable_demands,
)


class Demands(msgspec.Struct, frozen=True):
    """What the workspace's own files ask for.

    `endpoints`: an agent or a setting (an alias, a model of a profile), provider and address. `environment`:
    the setting, and the variable that it would bring into a prompt. A variable that never becomes text (a
    provider's key, a secret) needs no trust. `values`: parameters of the machine's settings that belong to an
    agent or a skill of the workspace and that nothing of the user's own declares. `keys`: providers whose key
    stands literally in the workspace's settings: whoever's it is could read the prompts. `model_files`: an
    agent or a setting, and the model file that it names: native code reads it. `mcp`: a server that the
    workspace's settings define, and its definition as canonical JSON: commands, addresses, which variables.
    `access`: an agent and a tool of it that needs more than `readonly`; one entry (`OWN_AGENTS`) stands for
    the agents that are not the workspace's. `tools`: a setting of `general.tools` that opens something, and
    what. `variables`: a secret of the workspace's settings, and the environment variable that commands would
    get through it. `secrets`: secrets of the machine's settings that belong to an agent or a skill of the
    workspace. `channels`: a connection of the workspace's settings that leads out of it, and
    its definition as canonical JSON: addresses, which variables.
    """

    endpoints: tuple[tuple[str, str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    model_files: tuple[tuple[str, str], ...] = ()
    mcp: tuple[tuple[str, str], ...] = ()
    access: tuple[tuple[str, str], ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    channels: tuple[tuple[str, str], ...] = ()

    @property
    def digests(self) -> dict[str, str]:
        """What is recorded when the user trusts this: a digest of each kind of demand that there is.

        Kinds are told apart so that a new kind, or a change of one, asks for that kind alone.
        """
        kinds = msgspec.structs.asdict(self)
        return {kind: sha256(canonical_json(asked)) for kind, asked in kinds.items() if asked}

    def among(self, recorded: Mapping[str, str]) -> "Demands":
        """Return the demands of those kinds whose digest was recorded."""
        granted = {kind for kind, digest in self.digests.items() if recorded.get(kind) == digest}
        return Demands(
            **{kind: asked for kind, asked in msgspec.structs.asdict(self).items() if kind in granted}
        )


def read_demands(tree: Tree) -> Demands:
    """Collect the demands of agents and settings that lie in the workspace."""
    models: list[tuple[str, ModelConfig]] = []
    agents = []
    for agent_id in list_agents(tree):
        try:
            agent = read_agent(tree, agent_id)
        except HaloError:
            continue  # a broken agent cannot run, so it demands nothing
        agents.append(agent)
        model = agent.config.model
        if agent.scope == "workspace" and isinstance(model, ModelConfig):
            models.append((agent.id, model))
    general = read_general_of(tree, WORKSPACE_SETTINGS)
    for path, model in settings_models(general.models):
        # Whoever uses it: an alias of the workspace may stand in an agent of the user.
        models.append((".".join((GENERAL, "models", *path)), model))
    return Demands(
        endpoints=tuple((name, m.provider, m.endpoint) for name, m in models if m.endpoint),
        environment=tuple(sorted(_variables_in_text(tree))),
        values=tuple(sorted(_values_of_the_machine(tree))),
        keys=tuple(sorted(_literal_keys(tree))),
        model_files=tuple((name, m.id) for name, m in models if names_a_file(m.provider, m.id)),
        mcp=tuple(sorted((name, definition_of(server)) for name, server in general.mcp.servers.items())),
        access=tuple(sorted(access_demands(agents))),
        tools=tuple(sorted(opening_demands(general.tools, read_general_of(tree, GLOBAL_SETTINGS).tools))),
        variables=tuple(sorted(variable_demands(tree))),
        secrets=tuple(sorted(secret_demands(tree))),
        channels=tuple(sorted(connection_demands(general.delivery))),
    )


def names_a_file(provider: str, model: str) -> bool:
    """Tell whether a model is a file by its path, not one that Halo fetched and verified."""
    return provider == "local" and model.lower().endswith(".gguf")


def definition_of(server: McpServer) -> str:
    """Write a server's definition in the one way in which it is compared."""
    return canonical_json(server).decode()


def is_declared_by_user(tree: Tree, name: str) -> bool:
    """Tell whether a folder of the user's own, or a template, declares the parameter `<id>.params.<key>`."""
    param = PARAM.match(name)
    return param is not None and param[2] in read_params(tree, param[1]).declared_by_user


def is_claimed_by_workspace(tree: Tree, name: str) -> bool:
    """Tell whether `<id>.params.<key>` is a parameter that only the workspace lays claim to.

    An agent or a skill of that id lies in the workspace, and no folder of the user's own declares the key.
    """
    param = PARAM.match(name)
    if param is None or is_declared_by_user(tree, name):
        return False
    return any(
        scope == "workspace" for kind in ("skills", "agents") for _, scope in folders_of(tree, kind, param[1])
    )


def _values_of_the_machine(tree: Tree) -> Iterator[str]:
    """Yield the parameters of the machine's settings that only the workspace lays claim to."""
    settings = read_settings(tree, GLOBAL_SETTINGS)
    for owner, block in settings.value.items():
        params = block.get("params") if is_id(owner) and isinstance(block, dict) else None
        for key in dotted_keys(params):
            if is_claimed_by_workspace(tree, f"{owner}.params.{key}"):
                yield f"{owner}.params.{key}"


def _literal_keys(tree: Tree) -> Iterator[str]:
    """Yield the providers whose key the workspace's settings hold literally."""
    settings = read_settings(tree, WORKSPACE_SETTINGS)
    for provider in PROVIDERS:
        setting = lookup(settings, f"{provider}.secrets.api_key")
        if setting is not None and setting.text and not setting.is_reference:
            yield provider


def _variables_in_text(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield setting and variable where `secret: false` lets a value of the workspace's settings into text."""
    settings = read_settings(tree, WORKSPACE_SETTINGS)
    for owner, block in settings.value.items():
        if not is_id(owner) or not isinstance(block, dict):
            continue
        opened = read_params(tree, owner).opened
        for key in sorted(opened):
            name = f"{owner}.params.{key}"
            setting = lookup(settings, name)
            if setting is not None:
                yield from ((name, variable) for variable in setting.names)
