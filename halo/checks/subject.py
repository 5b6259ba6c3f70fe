"""What is checked: a tree, everything that it compiles to, and what could not be compiled."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from halo.build.collecting import compile_in_memory, survey_tree
from halo.build.targets import Survey
from halo.build.trace.origins import Origin, PromptLine, prompt_lines
from halo.compiler.assemble import Compiled
from halo.compiler.tokens import spoken
from halo.errors import HaloError, UnknownNameError
from halo.files.tree import Tree
from halo.records.targets import AgentTarget, Target
from halo.workspace.ids import list_ids
from halo.workspace.settings.general import General, read_general


class Prompt(NamedTuple):
    """A target that compiles, line by line."""

    target: Target
    compiled: Compiled
    lines: list[PromptLine]


class Subject(NamedTuple):
    """A workspace as the rules see it. Everything is in memory; `tree` is for what the layers refer to.

    `chosen`: the agents that rules about single agents are for; empty for all.
    """

    tree: Tree
    general: General
    survey: Survey
    prompts: list[Prompt]
    failed: list[tuple[Target, HaloError]]
    chosen: frozenset[str] = frozenset()

    @property
    def agents(self) -> Iterator[Prompt]:
        """The prompts of agents, of the chosen ones alone if some are."""
        for prompt in self.prompts:
            if isinstance(prompt.target, AgentTarget) and self.is_chosen(prompt.target.agent):
                yield prompt

    def is_chosen(self, agent: str) -> bool:
        """Tell whether the rules about single agents are for this one."""
        return not self.chosen or agent in self.chosen

    def agent_ids(self) -> list[str]:
        """List the agents that the rules about single agents are for."""
        return [name for name in list_ids(self.tree, "agents") if self.is_chosen(name)]

    def origins(self) -> Iterator[Origin]:
        """Yield every line of every layer that a model is told, each once; of few-shots each message."""
        seen: set[tuple[str, int, str]] = set()
        for prompt in self.prompts:
            for origin in _told(prompt):
                key = (origin.source, origin.line, origin.text)
                if key not in seen and not origin.source.startswith("halo:"):
                    seen.add(key)
                    yield origin


def _told(prompt: Prompt) -> Iterator[Origin]:
    for line in prompt.lines:
        yield from line.origins
    manifest = prompt.compiled.manifest
    for message, place in zip(manifest.few_shots, manifest.few_shot_sources, strict=True):
        yield Origin(spoken(message), place.source, place.line, "verbatim")


def take(tree: Tree, agents: Iterable[str] = ()) -> Subject:
    """Compile all default targets of `tree`; `agents` narrow the rules about single agents.

    Raises `LayerError` for settings that cannot be read, `UnknownNameError` for an agent that does not exist.
    """
    chosen = frozenset(agents)
    if chosen:
        known = list_ids(tree, "agents")
        for name in sorted(chosen.difference(known)):
            raise UnknownNameError.of("agent", name, known)
    survey = survey_tree(tree)
    prompts: list[Prompt] = []
    failed: list[tuple[Target, HaloError]] = []
    for target, compiled, error, _ in compile_in_memory(tree, survey.targets):
        if compiled is not None:
            prompts.append(Prompt(target, compiled, prompt_lines(compiled.prompt, compiled.manifest)))
        elif error is not None:
            failed.append((target, error))
    return Subject(tree, read_general(tree), survey, prompts, failed, chosen)
