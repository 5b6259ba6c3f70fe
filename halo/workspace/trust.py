"""Trust: what a workspace asks of this machine, and whether the user granted exactly that.

A workspace may come from a stranger. It gets no key sent to an endpoint of its choice and no environment
variable into a prompt before `halo trust` recorded the digest of what it asks for; any change of that
asks again.
"""

import os
from typing import Any

import msgspec
import yaml

from halo.errors import HaloError, LayerError
from halo.files.canonical import canonical_json, canonical_text
from halo.files.digests import sha256
from halo.files.tree import Tree
from halo.workspace.agents import list_agents, read_agent
from halo.workspace.settings import WORKSPACE_SETTINGS, Setting, read_settings
from halo.workspace.yamldoc import load_yaml

FORMAT = 1


class Demands(msgspec.Struct, frozen=True):
    """What the workspace's own files ask for: endpoints by agent, and environment variables."""

    endpoints: tuple[tuple[str, str, str], ...] = ()
    environment: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What is recorded when the user trusts this."""
        return sha256(canonical_json(self))


def read_demands(tree: Tree) -> Demands:
    """Collect the demands of agents and settings that lie in the workspace."""
    endpoints = []
    for agent_id in list_agents(tree):
        try:
            agent = read_agent(tree, agent_id)
        except HaloError:
            continue  # a broken agent cannot run, so it demands nothing
        if agent.scope == "workspace" and agent.config.model.endpoint:
            endpoints.append((agent.id, agent.config.model.provider, agent.config.model.endpoint))
    names: set[str] = set()
    _collect(read_settings(tree, WORKSPACE_SETTINGS).value, names)
    return Demands(tuple(endpoints), tuple(sorted(names)))


def _collect(value: Any, names: set[str]) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _collect(item, names)
    elif isinstance(value, list):
        for item in value:
            _collect(item, names)
    elif isinstance(value, str):
        names.update(Setting(value, "", 0).names)


def trust_file(home: str) -> str:
    """Return where trust is recorded."""
    return os.path.join(home, "trust.yaml")


def read_trust(home: str) -> dict[str, str]:
    """Read the digests of what was trusted, by real path of the workspace.

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
        case {"format": 1, "workspaces": dict(entries)}:
            return {str(k): str(v) for k, v in entries.items()}
        case None:
            return {}
    raise LayerError("not a trust file of this version", file=path, hint="move it away and trust anew")


def render_trust(entries: dict[str, str]) -> bytes:
    """Write the trust file."""
    return yaml.safe_dump({"format": FORMAT, "workspaces": dict(sorted(entries.items()))}).encode()


class Grants(msgspec.Struct, frozen=True):
    """What this workspace may use: nothing, or exactly what it demands now and the user has seen.

    Demands are read from the layers, never from an artifact: a build folder may come from a stranger too.
    """

    demands: Demands = Demands()

    def endpoint(self, tree: Tree, agent_id: str, provider: str, endpoint: str) -> bool:
        """Tell whether `agent_id` may talk to `endpoint` with the provider's key.

        Agents of the global folder and of the templates are the user's own.
        """
        agent = read_agent(tree, agent_id)
        if agent.scope != "workspace":
            return (agent.config.model.provider, agent.config.model.endpoint) == (provider, endpoint)
        return (agent_id, provider, endpoint) in self.demands.endpoints

    def environment(self, names: tuple[str, ...]) -> bool:
        """Tell whether settings of the workspace may read these variables into a prompt."""
        return set(names) <= set(self.demands.environment)


def read_grants(tree: Tree, workspace: str, home: str) -> Grants:
    """Return what the user granted; nothing when the workspace demands something else by now."""
    recorded = read_trust(home).get(os.path.realpath(workspace))
    if recorded is None:
        return Grants()
    demands = read_demands(tree)
    return Grants(demands) if recorded == demands.digest else Grants()
