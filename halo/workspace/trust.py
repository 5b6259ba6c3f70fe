"""Trust: what a workspace asks of this machine, and whether the user granted exactly that.

A workspace may come from a stranger. Before `halo trust` recorded the digest of what it asks for, no key goes
to an endpoint of its choice, no environment variable and no value of the machine's settings to which only it
lays claim gets into a prompt, no key of its own is used, no model file that it names is loaded, and no MCP
server that it defines is started or spoken to; its agents only read, its settings open nothing to tools, and
commands get no variable and no secret of the machine through it. Any change of what it asks for asks again.
"""

import os
from collections.abc import Iterator, Mapping

import msgspec
import yaml

from halo.errors import HaloError, LayerError
from halo.files.atomic import replace_file
from halo.files.canonical import canonical_json, canonical_text
from halo.files.digests import sha256
from halo.files.locks import hold
from halo.files.tree import Tree
from halo.records.artifacts import PROVIDERS
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.ids import folders_of, is_id
from halo.workspace.locate import BUNDLE, HALO_DIR
from halo.workspace.mcp.defined import Defined
from halo.workspace.mcp.servers import McpServer
from halo.workspace.models.choice import choose_model
from halo.workspace.models.config import ModelConfig, settings_models
from halo.workspace.settings.files import (
    GLOBAL_SETTINGS,
    WORKSPACE_SETTINGS,
    Setting,
    dotted_keys,
    lookup,
    read_settings,
)
from halo.workspace.settings.general import GENERAL, read_general, read_general_of
from halo.workspace.settings.params import PARAM, read_params
from halo.workspace.tool_demands import (
    access_demands,
    is_of_workspace,
    opening_demands,
    secret_demands,
    variable_demands,
)
from halo.workspace.yamldoc import load_yaml

FORMAT = 1


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
    workspace.
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
        mcp=tuple(sorted((name, _definition(server)) for name, server in general.mcp.servers.items())),
        access=tuple(sorted(access_demands(agents))),
        tools=tuple(sorted(opening_demands(general.tools))),
        variables=tuple(sorted(variable_demands(tree))),
        secrets=tuple(sorted(secret_demands(tree))),
    )


def names_a_file(provider: str, model: str) -> bool:
    """Tell whether a model is a file by its path, not one that Halo fetched and verified."""
    return provider == "local" and model.lower().endswith(".gguf")


def _definition(server: McpServer) -> str:
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


def trust_file(home: str) -> str:
    """Return where trust is recorded."""
    return os.path.join(home, "trust.yaml")


Trust = dict[str, dict[str, str]]


def read_trust(home: str) -> Trust:
    """Read the digests of what was trusted, by real path of the workspace and kind of demand.

    Raises `LayerError` for a damaged file: trust is never guessed.
    """
    path = trust_file(home)
    try:
        with open(path, "rb") as file:
            text = canonical_text(file.read(), path)
    except FileNotFoundError:
        return {}
    document = load_yaml(text, path)
    match document.value:
        case {"format": 1, "workspaces": dict(entries)} if all(
            isinstance(kinds, dict) for kinds in entries.values()
        ):
            return entries
        case None:
            return {}
    raise LayerError("not a trust file of this version", file=path, hint="move it away and trust anew")


def render_trust(entries: Trust) -> bytes:
    """Write the trust file."""
    return yaml.safe_dump({"format": FORMAT, "workspaces": dict(sorted(entries.items()))}).encode()


def record_trust(home: str, workspace: str, digests: Mapping[str, str] | None) -> None:
    """Record what the user allowed a workspace, in the place of what was; None takes all of it back."""
    path = trust_file(home)
    os.makedirs(home, exist_ok=True)
    with hold(f"{path}.lock", what="the trust file", timeout=10):
        entries = read_trust(home)
        entries.pop(os.path.realpath(workspace), None)
        if digests is not None:
            entries[os.path.realpath(workspace)] = dict(digests)
        replace_file(path, render_trust(entries), mode=0o600)


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
        return (name, _definition(defined.server)) in self.demands.mcp

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
    recorded = read_trust(home).get(os.path.realpath(workspace))
    if recorded is None:
        return Grants()
    return Grants(read_demands(tree).among(recorded))
