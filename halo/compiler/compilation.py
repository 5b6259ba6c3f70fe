"""What the parts of an agent's prompt are made from."""

from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget
from halo.workspace.agents import Agent
from halo.workspace.layers import Layer
from halo.workspace.models.catalogue import ModelFacts
from halo.workspace.models.choice import Chosen
from halo.workspace.settings.general import General


class Compilation(NamedTuple):
    """One compile of an agent: its sources and its remarks. `user` is USER.md, None where there is none.

    `model` answers; `facts` are what the catalogue knows of it, None where it does not have it.
    """

    tree: Tree
    target: AgentTarget
    agent: Agent
    general: General
    user: Layer | None
    model: Chosen
    facts: ModelFacts | None
    diagnostics: list[Diagnostic]

    @property
    def root(self) -> bool:
        """Whether a user talks to it."""
        return self.target.role == "root"

    @property
    def full(self) -> bool:
        """Whether the mode leaves nothing out."""
        return self.target.mode == "full"

    @property
    def internal(self) -> bool:
        """Whether it belongs to the platform and gets nothing of the workspace."""
        return self.agent.config.internal

    def say(self, remark: Diagnostic) -> None:
        """Keep a remark for the manifest."""
        self.diagnostics.append(remark)
