"""The prompt of an agent: which parts, in which order.

The order stands in docs/reference/layers.md; the environment comes last (docs/decisions/0001), so that every
clone, colleague and CI job shares one cached prefix.
"""

from halo.compiler.assemble import Compiled, Offer, assemble
from halo.compiler.capabilities import call_format, skills_block, tool_list, tool_specs
from halo.compiler.compilation import Compilation
from halo.compiler.environment import environment
from halo.compiler.identity import body, identity_line, user_profile
from halo.compiler.prompts import bootstrap, prompts
from halo.compiler.roster import roster
from halo.compiler.rules import rules
from halo.compiler.runtime import runtime
from halo.errors import UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import SkillRef, TeamMember
from halo.records.targets import AgentTarget
from halo.workspace.agents import Agent, read_agent, read_team
from halo.workspace.general import read_general
from halo.workspace.layers import user_layer
from halo.workspace.skills import Skill, read_skill


def compile_agent(tree: Tree, target: AgentTarget) -> Compiled:
    """Compile the prompt of an agent target from the layers in `tree`.

    Raises `LayerError` (file and line) for a broken layer, `UnknownNameError` for an unknown agent.
    """
    job = Compilation(
        tree, target, read_agent(tree, target.agent), read_general(tree), user_layer(tree), diagnostics=[]
    )
    agent = job.agent
    if target.mode == "none":
        offer = Offer(runtime=runtime(job))
        return assemble(target, [identity_line(agent)], offer, tuple(job.diagnostics))
    team = read_team(tree, agent)
    skills = _read_skills(tree, agent) if job.full else ()
    specs = tool_specs(agent, skills)
    parts = [
        *user_profile(job),
        *body(job),
        roster(agent, team, target.role),
        *rules(job),
        *prompts(job),
        skills_block(agent, skills),
        tool_list(agent, specs),
        call_format(agent, specs),
    ]
    present = [part for part in parts if part is not None]
    if not any(part.section for part in present):
        present.insert(0, identity_line(agent))
    present = [*bootstrap(job), *present, environment(job)]
    offer = Offer(
        tools=specs,
        skills=tuple(SkillRef(s.id, s.name, s.description, s.scope) for s in skills),
        team=tuple(TeamMember(m.id, m.name, m.description) for m in team),
        runtime=runtime(job),
    )
    return assemble(target, present, offer, tuple(job.diagnostics))


def _read_skills(tree: Tree, agent: Agent) -> tuple[Skill, ...]:
    """Read the skills that agent.yaml lists, in its order, each once."""
    found: dict[str, Skill] = {}
    for i, skill_id in enumerate(agent.config.skills):
        try:
            found.setdefault(skill_id, read_skill(tree, skill_id))
        except (UnknownNameError, UsageError) as error:
            raise agent.document.error(f"skills: {error.message}", "skills", i, hint=error.hint) from None
    return tuple(found.values())
