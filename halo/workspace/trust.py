"""Trust: what a workspace asks of this machine, and whether the user granted exactly that.

A workspace may come from a stranger. It gets no key sent to an endpoint of its choice and no environment
variable into a prompt before `halo trust` recorded the digest of what it asks for; any change of that
asks again.
"""

import os
from collections.abc import Iterator

import msgspec
import yaml

from halo.errors import HaloError, LayerError
from halo.files.canonical import canonical_json, canonical_text
from halo.files.digests import sha256
from halo.files.tree import Tree
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.general import GENERAL, read_general, read_general_of
from halo.workspace.ids import is_id
from halo.workspace.model_choice import choose_model
from halo.workspace.models import ModelConfig, settings_models
from halo.workspace.params import read_params
from halo.workspace.settings import WORKSPACE_SETTINGS, lookup, read_settings
from halo.workspace.yamldoc import load_yaml

FORMAT = 1


class Demands(msgspec.Struct, frozen=True):
    """What the workspace's own files ask for.

    `endpoints`: an agent or a setting (an alias, a model of a profile), provider and address. `environment`:
    the setting, and the variable that it would bring into a prompt. A variable that never becomes text (a
    provider's key, a secret) needs no trust.
    """

    endpoints: tuple[tuple[str, str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def digests(self) -> dict[str, str]:
        """What is recorded when the user trusts this: a digest of each kind of demand that there is.

        Kinds are told apart so that a new kind, or a change of one, asks for that kind alone.
        """
        kinds = {"endpoints": self.endpoints, "environment": self.environment}
        return {kind: sha256(canonical_json(asked)) for kind, asked in kinds.items() if asked}


def read_demands(tree: Tree) -> Demands:
    """Collect the demands of agents and settings that lie in the workspace."""
    endpoints = []
    for agent_id in list_agents(tree):
        try:
            agent = read_agent(tree, agent_id)
        except HaloError:
            continue  # a broken agent cannot run, so it demands nothing
        model = agent.config.model
        if agent.scope == "workspace" and isinstance(model, ModelConfig) and model.endpoint:
            endpoints.append((agent.id, model.provider, model.endpoint))
    for path, model in settings_models(read_general_of(tree, WORKSPACE_SETTINGS).models):
        if model.endpoint:  # whoever uses it: an alias of the workspace may stand in an agent of the user
            setting = ".".join((GENERAL, "models", *path))
            endpoints.append((setting, model.provider, model.endpoint))
    return Demands(tuple(endpoints), tuple(sorted(_variables_in_text(tree))))


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


class Grants(msgspec.Struct, frozen=True):
    """What this workspace may use: nothing, or exactly what it demands now and the user has seen.

    Demands are read from the layers, never from an artifact: a build folder may come from a stranger too.
    """

    demands: Demands = Demands()

    def endpoint(self, tree: Tree, agent_id: str, provider: str, endpoint: str, profile: str = "") -> bool:
        """Tell whether `agent_id`, with the models of `profile`, may send the provider's key to `endpoint`.

        What counts is whose file the endpoint stands in, not whose agent it is: agents of the global folder
        and of the templates are the user's own, and so are aliases and profiles of the global settings.
        """
        chosen = choose_model(tree, read_agent(tree, agent_id), read_general(tree), profile)
        if (chosen.model.provider, chosen.model.endpoint) != (provider, endpoint):
            return False
        if chosen.scope != "workspace":
            return True
        return (chosen.setting or agent_id, provider, endpoint) in self.demands.endpoints

    def environment(self, setting: str, variables: tuple[str, ...]) -> bool:
        """Tell whether `setting` of the workspace may bring these variables into a prompt."""
        return {(setting, variable) for variable in variables} <= set(self.demands.environment)


def read_grants(tree: Tree, workspace: str, home: str) -> Grants:
    """Return what the user granted; nothing of a kind of which something else is demanded by now."""
    recorded = read_trust(home).get(os.path.realpath(workspace))
    if recorded is None:
        return Grants()
    demands = read_demands(tree)
    digests = demands.digests
    return Grants(
        Demands(
            demands.endpoints if recorded.get("endpoints") == digests.get("endpoints") else (),
            demands.environment if recorded.get("environment") == digests.get("environment") else (),
        )
    )
