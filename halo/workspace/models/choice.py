"""Which model an agent has: its own, what an alias stands for, or what a profile puts in its place.

This is the one place that resolves names of models. Where a model is written out decides who chose its
endpoint, which is what trust is about (halo.workspace.trust).
"""

import msgspec

from halo.errors import LayerError, UnknownNameError, near_miss_hint
from halo.files.tree import Tree
from halo.records.artifacts import Scope, ToolMode
from halo.workspace.agents import Agent
from halo.workspace.models.config import ModelConfig
from halo.workspace.settings.files import GLOBAL_SETTINGS, WORKSPACE_SETTINGS, read_settings
from halo.workspace.settings.general import GENERAL, General, read_general_of


class Chosen(msgspec.Struct, frozen=True):
    """The model of an agent and where it is written out: `path` in the YAML file `source`.

    `scope` is that of the file. `substituted`: a profile put it in the place of the agent's own.
    """

    model: ModelConfig
    source: str
    path: tuple[str, ...]
    scope: Scope
    substituted: bool = False

    @property
    def setting(self) -> str:
        """Its name in settings.yaml, such as `general.models.aliases.fast`; empty for one in agent.yaml."""
        return ".".join(self.path) if self.path[0] == GENERAL else ""

    @property
    def tool_mode(self) -> ToolMode:
        """How it calls tools: by the provider's own protocol unless its entry says otherwise."""
        return self.model.tool_mode or "native"


def choose_model(tree: Tree, agent: Agent, general: General, profile: str = "") -> Chosen:
    """Resolve the model of `agent`: `profile.agents`, then `profile.default`, then its own.

    A profile of `=` and an alias or `provider/model` is that one model, with the provider's own endpoint.
    Raises `UnknownNameError` for an unknown profile, `LayerError` (file and line) for an unknown alias.
    """
    choice: str | ModelConfig = agent.config.model
    source, scope, substituted = agent.document.source, agent.scope, False
    path: tuple[str, ...] = ("model",)
    if profile.startswith("=") and "/" in profile:
        provider, _, model = profile[1:].partition("/")
        return Chosen(ModelConfig(provider, model), source, path, scope, substituted=True)
    if profile.startswith("="):
        choice, substituted = profile[1:], True
        if choice not in general.models.aliases:
            raise UnknownNameError.of("model alias", choice, sorted(general.models.aliases))
    elif profile:
        known = general.models.profiles
        if profile not in known:
            raise UnknownNameError.of("profile", profile, sorted(known))
        below = known[profile].path_for(agent.id)
        if below is not None:
            choice = known[profile].choices[below]
            source, scope = _settings_with(tree, "profiles", profile)
            path = (GENERAL, "models", "profiles", profile, *below)
            substituted = True
    if isinstance(choice, ModelConfig):
        return Chosen(choice, source, path, scope, substituted)
    aliases = general.models.aliases
    if choice not in aliases:
        hint = "write a model as {provider: …, id: …}; general.models.aliases in settings.yaml has no names"
        if aliases:
            hint = near_miss_hint(choice, sorted(aliases))
        line = line_of(tree, agent, source, path)
        raise LayerError(f"unknown model alias {choice!r}", file=source, line=line, hint=hint)
    source, scope = _settings_with(tree, "aliases", choice)
    return Chosen(aliases[choice], source, (GENERAL, "models", "aliases", choice), scope, substituted)


def line_of(tree: Tree, agent: Agent, source: str, path: tuple[str, ...]) -> int:
    """Return the line of `path` in agent.yaml or in a settings file, whichever `source` is."""
    document = agent.document if source == agent.document.source else read_settings(tree, source)
    return document.line(*path)


def _settings_with(tree: Tree, kind: str, name: str) -> tuple[str, Scope]:
    """Return the settings file that an alias or a profile comes from: the workspace's hides a global one."""
    models = read_general_of(tree, WORKSPACE_SETTINGS).models
    own = models.aliases if kind == "aliases" else models.profiles
    return (WORKSPACE_SETTINGS, "workspace") if name in own else (GLOBAL_SETTINGS, "global")
