"""The roster: who an agent may delegate to, directly behind its AGENT.md (docs/reference/layers.md)."""

from halo.compiler.pieces import Part, Piece
from halo.records.targets import Role
from halo.workspace.agents import Agent

_LEAD = """\
## Know Your Team Before You Act

You lead this team. Before you take up a task, ask which of these agents it belongs to:

"""

_LEAD_RULES = """\


Delegate by default, and keep for yourself what only you can do: planning, deciding, joining results.
Start independent tasks side by side; one agent may work on several at once, each in a session of its own.
Do not poll. A report reaches you as a message when its session is done.
`query_agent` shows what an agent can do in detail.\
"""

_MEMBER = """\
## Your Team

Finish what you were handed yourself; delegate only a part that clearly belongs to one of these agents:

"""

_SELF = (
    " (you): start a copy of yourself only for a part that needs delegation of its own;"
    " do what comes one after another directly."
)


def roster(agent: Agent, team: tuple[Agent, ...], role: Role) -> Part | None:
    """Make the roster of `agent`; None when nobody is on it.

    The framing comes from the agent's `team:`, each entry from the member's own agent.yaml.
    """
    if not team:
        return None
    document = agent.document
    line = document.line("team")
    root = role == "root"
    pieces = [Piece(_LEAD if root else _MEMBER, document.source, line)]
    for i, member in enumerate(team):
        text = ("\n" if i else "") + _entry(member, own=member.id == agent.id, root=root)
        key = "description" if member.description else "name"
        pieces.append(Piece(text, member.document.source, member.document.line(key)))
    if root:
        pieces.append(Piece(_LEAD_RULES, document.source, line))
    return Part("team", "team", agent.scope, document.source, tuple(pieces), section=True)


def _entry(member: Agent, *, own: bool, root: bool) -> str:
    head = f"- `{member.id}` — {member.name}"
    if own:
        return head + (_SELF if root else " (you)")
    return f"{head}: {member.description}" if member.description else head
