"""What a workspace offers to other programs: the prompts of its agents and skills, and agents to ask."""

from typing import NamedTuple

from halo.errors import HaloError, UnknownNameError, UsageError
from halo.records.artifacts import Artifact
from halo.records.targets import Access, AgentTarget, SkillTarget, permits
from halo.runner.slots import fill
from halo.sessions.access import allow
from halo.sessions.choice import Choice
from halo.sessions.desk import Desk, Equipment, gather
from halo.sessions.find import sessions_folder
from halo.sessions.ids import timestamp
from halo.sessions.reply import Reply, Show
from halo.sessions.said import Invoked
from halo.sessions.talk import talk
from halo.workspace.agents import Agent, list_agents, read_agent
from halo.workspace.ids import list_ids
from halo.workspace.layers import one_line
from halo.workspace.locate import relative_directory
from halo.workspace.settings.disabling import is_disabled
from halo.workspace.settings.general import read_general
from halo.workspace.skills.reading import Skill, read_skill

ORIGIN = "mcp"
_AGENT, _SKILL = "agent/", "skill/"


class OfferedPrompt(NamedTuple):
    """A prompt by name, with what it can be given: `directory` of an agent, `arguments` of a skill."""

    name: str
    description: str
    argument: str
    argument_description: str


class Offer:
    """A workspace at `access` at most. Layers are read anew each time: what is edited counts at once."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self._desk = desk
        self._access = access

    def agents(self) -> list[Agent]:
        """List the agents that may be asked; internal, disabled and broken ones are left out."""
        tree = self._desk.tree
        general = read_general(tree)
        found = []
        for agent_id in list_agents(tree):
            try:
                agent = read_agent(tree, agent_id)
            except HaloError:
                continue  # whoever builds the workspace is told
            if not agent.config.internal and not is_disabled(general, "agents", agent.id, agent.scope):
                found.append(agent)
        return found

    def prompts(self) -> list[OfferedPrompt]:
        """List the prompts of agents, and of skills that users may invoke."""
        where = "A directory of the workspace whose rules apply."
        what = "What the skill is to work on."
        return [
            *(
                OfferedPrompt(_AGENT + a.id, a.description or f"The prompt of {a.name}.", "directory", where)
                for a in self.agents()
            ),
            *(
                OfferedPrompt(_SKILL + s.id, one_line(s.description) or s.name, "arguments", what)
                for s in self._skills()
            ),
        ]

    def prompt(self, name: str, argument: str) -> str:
        """Return the text of a prompt, its slots filled. Raises `UnknownNameError` for an unknown one."""
        if name not in (known := [prompt.name for prompt in self.prompts()]):
            raise UnknownNameError.of("prompt", name, known)
        if name.startswith(_SKILL):
            skill = name.removeprefix(_SKILL)
            artifact = self._desk.builder.ensure(SkillTarget(skill))
            return Invoked(skill, artifact, argument.strip()).text(self._values(artifact, self._access))
        workspace = self._desk.builder.places.workspace
        directory = relative_directory(workspace, argument) if argument else ""
        target = AgentTarget(name.removeprefix(_AGENT), directory=directory, access=self._access)
        allowed = allow(self._desk.builder, self._desk.tree, self._desk.grants(), target)
        artifact = self._desk.builder.ensure(allowed.target)
        return fill(artifact, self._values(artifact, allowed.access)).text

    async def ask(self, agent_id: str, message: str, show: Show) -> Reply:
        """Run a turn with an agent in a new session. Raises `HaloError` for what cannot be run."""
        known = [agent.id for agent in self.agents()]
        if agent_id not in known:
            raise UnknownNameError.of("agent", agent_id, known)
        if not message.strip():
            raise UsageError("the message is empty")
        places = self._desk.builder.places
        target = AgentTarget(agent_id, access=self._access)
        choice = Choice(sessions_folder(places.halo), places.home, None, target, ORIGIN)
        return await talk(self._desk, choice, message, show, frozen=False)

    def _skills(self) -> list[Skill]:
        tree = self._desk.tree
        general = read_general(tree)
        found = []
        for skill_id in list_ids(tree, "skills"):
            try:
                skill = read_skill(tree, skill_id)
            except HaloError:
                continue  # whoever builds the workspace is told
            open_ = permits(self._access, skill.requires_access)
            if skill.user_invocable and open_ and not is_disabled(general, "skills", skill.id, skill.scope):
                found.append(skill)
        return found

    def _values(self, artifact: Artifact, access: Access) -> dict[str, str]:
        equipment = Equipment(artifact, {}, access, self._desk.grants())
        return gather(self._desk, equipment).at(timestamp(self._desk.now_ns()))
