"""The prompt of an agent: which parts, in which order.

The order stands in docs/reference/layers.md; the environment comes last (docs/decisions/0001), so that every
clone, colleague and CI job shares one cached prefix.
"""

from halo.compiler.assemble import Compiled, Offer, assemble
from halo.compiler.capabilities import call_format, skills_block, tool_list, tool_specs
from halo.compiler.compilation import Compilation
from halo.compiler.context_files import context
from halo.compiler.environment import environment
from halo.compiler.fewshots import few_shots
from halo.compiler.identity import body, identity_line, user_profile
from halo.compiler.mcp_tools import mcp_tools
from halo.compiler.prompts import bootstrap, prompts
from halo.compiler.roster import roster
from halo.compiler.rules import rules
from halo.compiler.runtime import runtime, usable_tools
from halo.compiler.sections import sections
from halo.compiler.visible_skills import listed_skills, skill_commands, visible_skills
from halo.files.tree import Tree
from halo.records.artifacts import SkillRef, TeamMember
from halo.records.targets import AgentTarget
from halo.records.tools import ToolSpec
from halo.workspace.agents import read_agent, read_team
from halo.workspace.layers import user_layer
from halo.workspace.models.catalogue import read_facts
from halo.workspace.models.choice import choose_model
from halo.workspace.settings.disabling import refuse_disabled
from halo.workspace.settings.general import read_general


def compile_agent(tree: Tree, target: AgentTarget, further: tuple[ToolSpec, ...] = ()) -> Compiled:
    """Compile the prompt of an agent target from the layers in `tree`.

    `further` are tools that a program brings along, in its order; those that `target` does not permit are
    left out as others are.
    Raises `LayerError` (file and line) for a broken layer, `UnknownNameError` for an unknown agent.
    """
    agent, general = read_agent(tree, target.agent), read_general(tree)
    refuse_disabled(general, "agents", agent.id, agent.scope)
    model = choose_model(tree, agent, general, target.profile)
    facts = read_facts(tree, model.model.provider, model.model.id)
    job = Compilation(tree, target, agent, general, user_layer(tree), model, facts, diagnostics=[])
    if target.mode == "none":
        offer = Offer(runtime=runtime(job))
        return assemble(target, [identity_line(agent)], offer, tuple(job.diagnostics))
    team = read_team(tree, agent, job.general)
    listed = listed_skills(job) if job.full else ()
    skills = visible_skills(job, listed)
    offered = mcp_tools(job)
    specs = usable_tools(job, tool_specs(agent, skills, target.access, (*offered.specs, *further)))
    shown = few_shots(job, specs)
    parts = [
        *user_profile(job),
        *body(job),
        roster(agent, team, target.role),
        *rules(job),
        *context(job),
        *prompts(job),
        *sections(job, skills),
        skills_block(agent, skills),
        tool_list(agent, specs),
        call_format(job, specs),
    ]
    present = [part for part in parts if part is not None]
    if not any(part.section and part.kind != "context" for part in present):
        present.insert(0, identity_line(agent))
    present = [*bootstrap(job), *present, environment(job)]
    offer = Offer(
        tools=specs,
        skills=tuple(SkillRef(s.id, s.name, s.description, s.scope) for s in skills),
        team=tuple(TeamMember(m.id, m.name, m.description) for m in team),
        few_shots=shown.messages,
        few_shot_sources=shown.sources,
        commands=skill_commands(job, listed),
        runtime=runtime(job, offered.origins),
    )
    return assemble(target, present, offer, tuple(job.diagnostics))
