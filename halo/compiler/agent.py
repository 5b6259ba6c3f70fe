"""The prompt of an agent: which parts, in which order.

The order stands in docs/reference/layers.md; the environment comes last (docs/decisions/0001), so that every
clone, colleague and CI job shares one cached prefix.
"""

from halo.compiler.assemble import Compiled, Offer, assemble
from halo.compiler.capabilities import call_format, skills_block, tool_list, tool_specs
from halo.compiler.pieces import RULES, Fill, Part, Piece, titled, verbatim
from halo.compiler.placeholders import Placeholders
from halo.compiler.roster import roster
from halo.errors import LayerError, UnknownNameError, UsageError
from halo.files.tree import Tree
from halo.records.artifacts import Binding, Runtime, SkillRef, TeamMember
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget
from halo.workspace.agents import Agent, read_agent, read_agent_body, read_team
from halo.workspace.layers import (
    Layer,
    directory_layers,
    index_layer,
    instructions_layer,
    one_line,
    prompt_scope,
    user_layer,
)
from halo.workspace.skills import Skill, read_skill

_INDEX_LEAD = (
    "What this project is, and where its documents are; read the ones you need with `file_read`.\n\n"
)


def compile_agent(tree: Tree, target: AgentTarget) -> Compiled:
    """Compile the prompt of an agent target from the layers in `tree`.

    Raises `LayerError` (file and line) for a broken layer, `UnknownNameError` for an unknown agent.
    """
    agent = read_agent(tree, target.agent)
    diagnostics: list[Diagnostic] = []
    if target.mode == "none":
        return assemble(
            target, [_identity(agent)], Offer(runtime=_runtime(agent, target)), tuple(diagnostics)
        )
    minimal = target.mode == "minimal"
    team = read_team(tree, agent)
    skills = () if minimal else _read_skills(tree, agent)
    specs = tool_specs(agent, skills)
    user = user_layer(tree)
    bootstrap = _bootstrap(tree, target, agent, user, diagnostics)
    parts: list[Part | None] = [
        *_user(target, agent, user),
        *_body(tree, agent, user, diagnostics),
        roster(agent, team, target.role),
        *_rules(tree, target, agent),
        *_prompts(tree, target, agent, diagnostics),
        skills_block(agent, skills),
        tool_list(agent, specs),
        call_format(agent, specs),
    ]
    present = [part for part in parts if part is not None]
    if not any(part.section for part in present):
        present.insert(0, _identity(agent))
    present = [*bootstrap, *present, _environment(target)]
    offer = Offer(
        tools=specs,
        skills=tuple(SkillRef(s.id, s.name, s.description, s.scope) for s in skills),
        team=tuple(TeamMember(m.id, m.name, m.description) for m in team),
        runtime=_runtime(agent, target),
    )
    return assemble(target, present, offer, tuple(diagnostics))


def _read_skills(tree: Tree, agent: Agent) -> tuple[Skill, ...]:
    """Read the skills that agent.yaml lists, in its order, each once."""
    found: dict[str, Skill] = {}
    for i, skill_id in enumerate(agent.config.skills):
        try:
            found.setdefault(skill_id, read_skill(tree, skill_id))
        except (UnknownNameError, UsageError) as error:
            raise agent.document.error(f"skills: {error.message}", "skills", i, hint=error.hint) from None
    return tuple(found.values())


def _bootstrap(
    tree: Tree, target: AgentTarget, agent: Agent, user: Layer | None, diagnostics: list[Diagnostic]
) -> list[Part]:
    """First-run guidance: for a root agent while no USER.md exists."""
    if user is not None or target.role != "root" or agent.config.internal:
        return []
    return _scope(tree, "bootstrap", target, diagnostics, section=True)


def _user(target: AgentTarget, agent: Agent, user: Layer | None) -> list[Part]:
    shown = target.role == "root" and target.mode == "full" and not agent.config.internal
    if user is None or not user.body or not shown:
        return []
    return [titled("user", "user", "User Profile", user)]


def _body(tree: Tree, agent: Agent, user: Layer | None, diagnostics: list[Diagnostic]) -> list[Part]:
    """AGENT.md with its placeholders resolved; without one, `system_prompt` of agent.yaml."""
    layer = read_agent_body(tree, agent)
    if layer is None:
        text = agent.config.system_prompt.strip()
        if not text:
            return []
        document = agent.document
        piece = Piece(text, document.source, document.line("system_prompt"))
        part = Part("agent", "agent", agent.scope, document.source, (piece,), section=True, hides=agent.hides)
        return [part]
    known = {"agent_name": Piece(agent.name, agent.document.source, agent.document.line("name"))}
    known.update(user_names(user))
    placeholders = Placeholders(
        tree,
        known=known,
        session=frozenset(),
        namespaces=frozenset({agent.id, *agent.config.skills}),
        own="",
        say=diagnostics.append,
    )
    pieces = tuple(placeholders.render(layer))
    return [Part("agent", "agent", agent.scope, layer.source, pieces, section=True, hides=agent.hides)]


def user_names(user: Layer | None) -> dict[str, Piece]:
    """Return `user_name` and `ai_name` as USER.md's front matter gives them."""
    if user is None or user.front is None:
        return {}
    found = {}
    for key in ("user_name", "ai_name"):
        value = user.value(key)
        if isinstance(value, dict | list):
            raise user.front.error(f"{key}: a name is plain text", key)
        if value is not None:
            found[key] = Piece(one_line(str(value)), user.source, user.front.line(key))
    return found


def _rules(tree: Tree, target: AgentTarget, agent: Agent) -> list[Part]:
    """Instructions from general to specific, then what the project knows. Internal agents get none."""
    if agent.config.internal:
        return []
    parts: list[Part] = []
    instructions = instructions_layer(tree)
    if instructions is not None and instructions.body:
        parts.append(titled("instructions", "instructions", "User Instructions", instructions))
    chain = directory_layers(tree, target.directory)
    if chain:
        first = chain[0][1]
        pieces = (Piece("## User Instructions\n\n", first.source, first.line), *chain_pieces(chain))
        parts.append(
            Part("directory", "instructions", "workspace", chain[-1][1].source, pieces, section=True)
        )
    index = index_layer(tree)
    if index is not None and index.body:
        heading = Piece(f"## Project Knowledge\n\n{_INDEX_LEAD}", index.source, index.line)
        parts.append(
            Part("index", "index", index.scope, index.source, (heading, verbatim(index)), section=True)
        )
    return parts


def chain_pieces(chain: tuple[tuple[str, Layer], ...]) -> list[Piece]:
    """Write a chain of directory rules: each level headed `### <dir>`, outermost first."""
    pieces: list[Piece] = []
    for i, (directory, layer) in enumerate(chain):
        divider = "\n\n" if i else ""
        pieces.append(Piece(f"{divider}### {directory}\n\n", layer.source, layer.line))
        pieces.append(verbatim(layer))
    return pieces


def _prompts(tree: Tree, target: AgentTarget, agent: Agent, diagnostics: list[Diagnostic]) -> list[Part]:
    """Root rules lead, the rules for everyone trail: the nearer to the top, the more attention."""
    if agent.config.internal:
        return []
    root = _scope(tree, "root", target, diagnostics) if target.role == "root" else []
    return [*root, *_scope(tree, "all", target, diagnostics)]


def _scope(
    tree: Tree, name: str, target: AgentTarget, diagnostics: list[Diagnostic], *, section: bool = False
) -> list[Part]:
    """Make a part of each file in `prompts/<name>/`."""
    found = prompt_scope(tree, name, target.platform)
    diagnostics.extend(found.diagnostics)
    return [
        Part(
            f"prompts/{name}/{layer.source.rsplit('/', 1)[1]}",
            f"prompts/{name}",
            layer.scope,
            layer.source,
            (verbatim(layer),),
            section=section,
            hides=found.hides,
        )
        for layer in found.layers
    ]


def _identity(agent: Agent) -> Part:
    """Make the line that is left when nothing else says who the agent is."""
    document = agent.document
    piece = Piece(
        f"You are {agent.name}, an agent of this workspace.", document.source, document.line("name")
    )
    return Part("identity", "agent", agent.scope, document.source, (piece,), section=True)


def _environment(target: AgentTarget) -> Part:
    """Say what differs from machine to machine, in slots."""
    lead = "The project workspace is at: " if target.role == "root" else "The workspace root is: "
    pieces = [
        Piece(lead, RULES, 1),
        Piece("{{workspace_root}}", RULES, 1, fill=Fill("workspace_root", "builtin")),
    ]
    if target.directory:
        pieces.append(Piece("\nWorking directory: ", RULES, 2))
        pieces.append(Piece("{{working_dir}}", RULES, 2, fill=Fill("working_dir", "builtin")))
    return Part("environment", "environment", "halo", RULES, tuple(pieces))


# Windows in tokens when agent.yaml names none: small machines run `local`.
_WINDOW = {"local": 8192}
_LARGE_WINDOW = 200_000


def _runtime(agent: Agent, target: AgentTarget) -> Runtime:
    model, context = agent.config.model, agent.config.context
    if not model.provider or not model.id:
        raise LayerError(
            "model needs a provider and an id", file=agent.document.source, line=agent.document.line("model")
        )
    return Runtime(
        binding=Binding(
            provider=model.provider,
            model=model.id,
            endpoint=model.endpoint,
            temperature=model.temperature,
            top_p=model.top_p,
            top_k=model.top_k,
            seed=model.seed,
            **({"max_tokens": model.max_tokens} if model.max_tokens is not None else {}),
        ),
        name=agent.name,
        tool_mode=agent.tool_mode,
        context_tokens=context.max_tokens or _WINDOW.get(model.provider, _LARGE_WINDOW),
        compress_at=context.compress_at,
        access=target.access,
    )
