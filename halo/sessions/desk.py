"""What a turn is set up with: artifacts, the model, slot values, tools."""

from collections.abc import Callable, Mapping

import msgspec

from halo.build.builder import Builder
from halo.files.roots import ConfinedRoot
from halo.models.adapter import Adapter
from halo.models.opening import open_adapter
from halo.records.artifacts import Artifact
from halo.records.messages import Message
from halo.records.targets import AgentTarget, SkillTarget
from halo.records.tools import SESSION_TOOLS
from halo.runner.slots import fill
from halo.runner.turn import Turn
from halo.sessions.keys import provider_key
from halo.sessions.values import Moment, slot_values
from halo.tools.base import Surroundings
from halo.tools.toolbox import Toolbox
from halo.workspace.ids import is_id
from halo.workspace.trust import Grants, read_grants


class Equipment(msgspec.Struct, frozen=True):
    """What a turn runs with: the agent's artifact and those of its visible skills, all pinned."""

    artifact: Artifact
    skills: dict[str, Artifact]


def equip(builder: Builder, target: AgentTarget, *, frozen: bool) -> Equipment:
    """Get the artifacts of a turn, fresh; with `frozen` a stale one is refused."""
    get = builder.frozen if frozen else builder.ensure
    artifact = get(target)
    return Equipment(artifact, {s.id: get(SkillTarget(s.id)) for s in artifact.manifest.skills})


class Desk:
    """Everything around one turn that is not the conversation: paths, environment, clock, cache."""

    def __init__(
        self, builder: Builder, environ: Mapping[str, str], cache: str, now_ns: Callable[[], int]
    ) -> None:
        self.builder = builder
        self.environ = environ
        self.cache = cache
        self.now_ns = now_ns
        self.tree = builder.places.tree()

    def grants(self) -> Grants:
        """Return what the user allowed this workspace."""
        return read_grants(self.tree, self.builder.places.workspace, self.builder.places.home)

    def adapter(self, artifact: Artifact, agent: str) -> Adapter:
        """Open the model that the artifact of `agent` is bound to."""
        runtime = artifact.manifest.runtime
        assert runtime is not None  # noqa: S101  # agents have one
        binding = runtime.binding
        return open_adapter(
            binding,
            tool_mode=runtime.tool_mode,
            key=provider_key(binding.provider, self.tree, self.environ),
            trusted=bool(binding.endpoint)
            and self.grants().endpoint(self.tree, agent, binding.provider, binding.endpoint),
            context_tokens=runtime.context_tokens,
            cache=self.cache,
            base_dir=self.builder.places.workspace,
        )


def lay_out(
    desk: Desk, equipment: Equipment, history: tuple[Message, ...], now: str
) -> tuple[Turn, Toolbox, list[str]]:
    """Fill the slots, with `now` as the time, and lay out the tools.

    Also returns what the user should know: values that are missing, tools that this version cannot run.
    """
    artifact, places = equipment.artifact, desk.builder.places
    moment = Moment.of(artifact, places.workspace, now)
    slots = [s for a in (artifact, *equipment.skills.values()) for s in a.manifest.slots]
    asks = any(s.origin == "environment" for s in slots)
    values, warnings = slot_values(
        slots, moment, desk.tree, desk.environ, desk.grants() if asks else Grants()
    )
    toolbox = Toolbox(
        artifact.manifest.tools,
        Surroundings(
            workspace=ConfinedRoot(places.workspace),
            skills=_skill_roots(desk, equipment),
            load_skill=lambda skill: _skill_text(equipment, skill, values),
        ),
    )
    remarks = [f"warning: {warning}" for warning in warnings]
    delegation = {spec.name for spec in SESSION_TOOLS}
    missing = [name for name in toolbox.missing if name not in delegation]
    if len(missing) < len(toolbox.missing):
        remarks.append("note: this version does not start sub-agents yet")
    if missing:
        remarks.append(f"note: this version does not run {', '.join(missing)} yet")
    return Turn(artifact, fill(artifact, values), history), toolbox, remarks


def _skill_roots(desk: Desk, equipment: Equipment) -> dict[str, ConfinedRoot]:
    """Find the folders of skills that do not lie in the workspace; their files are read as files."""
    roots = desk.builder.places.roots
    found = {}
    for skill in equipment.artifact.manifest.skills:
        if skill.scope in ("global", "builtin") and is_id(skill.id):
            found[skill.id] = ConfinedRoot(f"{roots[skill.scope]}/skills/{skill.id}")
    return found


def _skill_text(equipment: Equipment, skill: str, values: Mapping[str, str]) -> str | None:
    artifact = equipment.skills.get(skill)
    return fill(artifact, values).text if artifact is not None else None
