"""Agents: agent.yaml as a typed value, and AGENT.md."""

from typing import Annotated

import msgspec
from msgspec import Meta

from halo.errors import LayerError, UnknownNameError, UsageError, near_miss_hint
from halo.files.canonical import canonical_text
from halo.files.tree import NotFound, Tree
from halo.records.artifacts import Scope, Strategy
from halo.records.budgets import Budgets
from halo.records.policies import PolicyRule
from halo.records.targets import RESERVED_AGENT_IDS
from halo.records.tools import LISTABLE_TOOLS
from halo.workspace.conversion import convert
from halo.workspace.ids import list_ids, serving_folder
from halo.workspace.layers import Layer, one_line, read_layer
from halo.workspace.models.config import ModelConfig, model_problem
from halo.workspace.settings.disabling import is_disabled
from halo.workspace.settings.general import General
from halo.workspace.yamldoc import YamlDocument, load_yaml


class ContextConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`context:` of agent.yaml: the window in tokens, and the fill (0 to 1) at which it is shortened."""

    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="The window of the agent's own model.")
    ] = None
    compress_at: Annotated[
        float, Meta(gt=0, le=1, description="The fill at which the history is shortened.")
    ] = 0.8
    strategies: Annotated[
        tuple[Strategy, ...], Meta(description="How it is shortened: tried in this order until it fits.")
    ] = ("prune", "summarise")
    max_messages: Annotated[
        Annotated[int, Meta(ge=2)] | None, Meta(description="The most messages that are kept.")
    ] = None
    reserve_tokens: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Tokens of the window that are to be free when a turn is over."),
    ] = None


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """agent.yaml. A `model` that is text is an alias of `general.models.aliases` in settings.yaml."""

    model: Annotated[
        str | ModelConfig, Meta(description="Who answers: a model, or an alias of general.models.aliases.")
    ]
    name: Annotated[str, Meta(description="For people and rosters; the id where none is given.")] = ""
    description: Annotated[
        str, Meta(description="The roster line by which others decide whether to hand it work.")
    ] = ""
    system_prompt: Annotated[str, Meta(description="Used where there is no AGENT.md; no placeholders.")] = ""
    tools: Annotated[tuple[str, ...], Meta(description="Exactly the tools it may use.")] = ()
    skills: Annotated[
        tuple[str, ...],
        Meta(description="Ids of the skills that it may activate, in the order of its prompt."),
    ] = ()
    mcp: Annotated[
        tuple[str, ...],
        Meta(description="MCP servers whose tools it may use: all of server, or the one of server/tool."),
    ] = ()
    team: Annotated[
        tuple[str, ...],
        Meta(description="Ids of agents that it may delegate to; its own id: copies of itself."),
    ] = ()
    context: ContextConfig = ContextConfig()
    budgets: Budgets = Budgets()
    policy: Annotated[
        tuple[PolicyRule, ...],
        Meta(description="Which calls run, ask or are denied: the first rule that matches counts."),
    ] = ()
    priority: Annotated[float, Meta(description="Higher stands earlier in a roster.")] = 0
    internal: Annotated[
        bool, Meta(description="Hidden from rosters, gets no shared layers, never delegates.")
    ] = False


class Agent(msgspec.Struct, frozen=True):
    """An agent as its folder defines it. `document` knows the lines of agent.yaml."""

    id: str
    scope: Scope
    folder: str
    config: AgentConfig
    document: YamlDocument
    hides: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name for people, on one line; the id where none is given."""
        return one_line(self.config.name) or self.id

    @property
    def description(self) -> str:
        """What it is for, on one line."""
        return one_line(self.config.description)

    @property
    def delegates(self) -> bool:
        """A non-empty team is the switch for delegation; platform agents never delegate."""
        return bool(self.config.team) and not self.config.internal


def list_agents(tree: Tree) -> list[str]:
    """List the ids of all agents, sorted."""
    return list_ids(tree, "agents")


def read_agent(tree: Tree, agent_id: str, *, hides: bool = True) -> Agent:
    """Read the agent.yaml of the folder that serves `agent_id`; `hides` as in `serving_folder`.

    Raises `UnknownNameError` for an unknown agent, `LayerError` (file and line) for a broken agent.yaml.
    """
    if agent_id in RESERVED_AGENT_IDS:
        raise UsageError(f"an agent cannot be called {agent_id!r}", hint="rename its folder")
    served = serving_folder(tree, "agents", agent_id, hides=hides)
    source = f"{served.folder}/agent.yaml"
    try:
        text = canonical_text(tree.read(source), source)
    except NotFound:
        raise LayerError(
            f"agent {agent_id!r} has no agent.yaml",
            file=source,
            hint="it needs at least model: {provider, id}",
        ) from None
    document = load_yaml(text, source)
    config = convert(document, AgentConfig)
    problem = model_problem(config.model) if isinstance(config.model, ModelConfig) else None
    if problem is not None:
        raise document.error(problem.message, "model", *problem.path, hint=problem.hint)
    for i, tool in enumerate(config.tools):
        if tool not in LISTABLE_TOOLS:
            raise document.error(
                f"unknown tool {tool!r}", "tools", i, hint=near_miss_hint(tool, list(LISTABLE_TOOLS))
            )
    return Agent(agent_id, served.scope, served.folder, config, document, served.hides)


def read_agent_body(tree: Tree, agent: Agent) -> Layer | None:
    """Read the AGENT.md of the agent's folder; None when it is absent or has no text."""
    layer = read_layer(tree, f"{agent.folder}/AGENT.md", agent.scope)
    return layer if layer is not None and layer.body else None


def read_team(tree: Tree, agent: Agent, general: General) -> tuple[Agent, ...]:
    """Return the agents that `agent` may delegate to: itself first when listed, then by priority and id.

    Internal and disabled agents are left out. Raises `LayerError` at the line of an unknown member.
    """
    if not agent.delegates:
        return ()
    members: dict[str, Agent] = {}
    for i, member in enumerate(agent.config.team):
        try:
            members[member] = agent if member == agent.id else read_agent(tree, member, hides=False)
        except (UnknownNameError, UsageError) as error:
            raise agent.document.error(f"team: {error.message}", "team", i, hint=error.hint) from None
    visible = [
        m
        for m in members.values()
        if not m.config.internal and not is_disabled(general, "agents", m.id, m.scope)
    ]
    return tuple(sorted(visible, key=lambda m: (m.id != agent.id, -m.config.priority, m.id)))
