"""Prompts as values of a test: text that knows its layers."""

import difflib
from typing import NamedTuple

import msgspec

from halo.compiler.assemble import Compiled
from halo.compiler.compile import compile_target
from halo.errors import HaloError, UsageError
from halo.records.artifacts import Manifest
from halo.records.targets import AgentTarget, Role, Target
from halo.workspace.ids import serving_folder
from halo.workspace.places import Places
from halo.workspace.settings.disabling import list_enabled
from halo.workspace.settings.general import read_general

_ROLES: tuple[Role, ...] = ("root", "sub")
_CONTEXT = 3  # lines around a difference


class Prompt(str):
    """An assembled prompt as `halo prompt` prints it, with its target and its manifest."""

    __slots__ = ("manifest", "target")

    target: Target
    manifest: Manifest

    @classmethod
    def of(cls, target: Target, compiled: Compiled) -> "Prompt":
        """Take what was compiled."""
        prompt = cls(compiled.prompt)
        prompt.target, prompt.manifest = target, compiled.manifest
        return prompt


class Prompts:
    """The prompts of one workspace, compiled in memory when they are asked for.

    Call it with the id of an agent, and what else makes a target (role, directory, mode, platform, access,
    profile); or with a target. Raises what the compiler raises, and `UsageError` for a word that is none.
    """

    def __init__(self, places: Places, *, with_global: bool) -> None:
        self._tree = places.tree() if with_global else places.shared_tree()

    def __call__(self, agent: str | Target = "default", **options: str) -> Prompt:
        """Compile a prompt. A broken layer is told in the line of the test that asked for it."""
        __tracebackhide__ = True
        try:
            target = _target(agent, options) if isinstance(agent, str) else agent
            return Prompt.of(target, compile_target(self._tree, target))
        except HaloError as error:
            raise error.with_traceback(None) from None

    def targets(self) -> list[AgentTarget]:
        """Return the prompts of every agent that somebody wrote, as root and as sub.

        Agents that come with Halo are left out: its next version may word them otherwise.
        """
        agents = list_enabled(self._tree, read_general(self._tree), "agents")
        own = [a for a in agents if serving_folder(self._tree, "agents", a).scope != "builtin"]
        return [AgentTarget(agent, role) for agent in own for role in _ROLES]


def _target(agent: str, options: dict[str, str]) -> AgentTarget:
    target = AgentTarget(agent, **options)  # type: ignore[arg-type]
    try:
        return msgspec.convert(msgspec.to_builtins(target), AgentTarget)
    except msgspec.ValidationError as error:
        raise UsageError(f"halo_prompt: {error}") from None


class Place(NamedTuple):
    """Where a prompt differs from its snapshot: the segment, the layer's line, and the lines around it."""

    segment: str
    source: str
    line: int
    shown: tuple[str, ...]


def differences(prompt: Prompt, expected: str) -> list[Place]:
    """Find where `prompt` differs from a snapshot, and which layers that comes from."""
    from halo.build.trace.origins import prompt_lines

    lines = prompt_lines(prompt, prompt.manifest)
    before, after = expected.removesuffix("\n").split("\n"), [line.text for line in lines]
    found = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        place = next(j1 for tag, _, _, j1, _ in group if tag != "equal")
        line = lines[min(place, len(lines) - 1)]
        origin = line.origins[0]
        shown: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            shown += [("  " if tag == "equal" else "- ") + text for text in before[i1:i2]]
            shown += [f"+ {text}" for text in after[j1:j2] if tag != "equal"]
        found.append(Place(line.segment, origin.source, origin.line, tuple(shown)))
    return found
