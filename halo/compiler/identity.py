"""Who the agent is and whom it works for: USER.md, AGENT.md, and what stands in for them."""

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import Part, Piece, titled
from halo.compiler.placeholders import USER_NAMES, Placeholders
from halo.workspace.agents import Agent, read_agent_body
from halo.workspace.layers import Layer, one_line


def user_profile(job: Compilation) -> list[Part]:
    """USER.md: for a root agent in full mode."""
    shown = job.root and job.full and not job.internal
    if job.user is None or not job.user.body or not shown:
        return []
    return [titled("user", "user", "User Profile", job.user)]


def body(job: Compilation) -> list[Part]:
    """AGENT.md with its placeholders resolved; without one, `system_prompt` of agent.yaml."""
    agent = job.agent
    document = agent.document
    layer = read_agent_body(job.tree, agent)
    if layer is None:
        text = agent.config.system_prompt.strip()
        if not text:
            return []
        piece = Piece(text, document.source, document.line("system_prompt"))
        return [Part("agent", "agent", agent.scope, document.source, (piece,), True, agent.hides)]
    known = {"agent_name": Piece(agent.name, document.source, document.line("name"))}
    known.update(user_names(job.user))
    placeholders = Placeholders(
        job.tree,
        known=known,
        session=frozenset(),
        namespaces=frozenset({agent.id, *agent.config.skills}),
        own="",
        say=job.say,
    )
    pieces = tuple(placeholders.render(layer))
    return [Part("agent", "agent", agent.scope, layer.source, pieces, section=True, hides=agent.hides)]


def user_names(user: Layer | None) -> dict[str, Piece]:
    """Return `user_name` and `ai_name` as USER.md's front matter gives them."""
    if user is None or user.front is None:
        return {}
    found = {}
    for key in USER_NAMES:
        value = user.value(key)
        if isinstance(value, dict | list):
            raise user.front.error(f"{key}: a name is plain text", key)
        if value is not None:
            found[key] = Piece(one_line(str(value)), user.source, user.front.line(key))
    return found


def identity_line(agent: Agent) -> Part:
    """Make the line that is left when nothing else says who the agent is."""
    document = agent.document
    piece = Piece(
        f"You are {agent.name}, an agent of this workspace.", document.source, document.line("name")
    )
    return Part("identity", "agent", agent.scope, document.source, (piece,), section=True)
