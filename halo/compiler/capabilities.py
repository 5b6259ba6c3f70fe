"""What an agent can do, as its prompt says it: skills, the tool list, the format of calls."""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from halo.compiler.compilation import Compilation
from halo.compiler.pieces import Part, Piece
from halo.records.targets import Access, permits
from halo.records.tools import (
    DRAFT,
    LISTABLE_TOOLS,
    SESSION_TOOLS,
    STATUS,
    WORKSPACE_TOOLS,
    ToolSpec,
    activate_skill,
)
from halo.workspace.agents import Agent
from halo.workspace.layers import one_line
from halo.workspace.mcp.names import PREFIX
from halo.workspace.models.choice import line_of
from halo.workspace.skills.reading import Skill


def tool_specs(
    agent: Agent, skills: tuple[Skill, ...], access: Access, mcp: tuple[ToolSpec, ...] = ()
) -> tuple[ToolSpec, ...]:
    """Return the tools of `agent` in their fixed order.

    Listed workspace tools, the session tools when it delegates, `draft`, those of MCP servers,
    `session_status`, and `activate_skill` when skills are visible; of all these what `access` permits.
    """
    listed = set(agent.config.tools)
    specs = [spec for spec in WORKSPACE_TOOLS if spec.name in listed]
    if agent.delegates:
        specs.extend(SESSION_TOOLS)
    if DRAFT.name in listed:
        specs.append(LISTABLE_TOOLS[DRAFT.name])
    specs.extend(mcp)
    specs.append(STATUS)
    if skills:
        specs.append(activate_skill(tuple(s.id for s in skills)))
    return tuple(spec for spec in specs if permits(access, spec.access))


def skills_block(agent: Agent, skills: tuple[Skill, ...]) -> Part | None:
    """List the skills that may be activated; bodies are loaded on demand. None without skills."""
    if not skills:
        return None
    document = agent.document
    line = document.line("skills")
    lead = (
        "## Your Skills\n\n"
        "Load the full instructions of a skill with `activate_skill` before you use it.\n\n"
        "<available_skills>\n"
    )
    pieces = [Piece(lead, document.source, line)]
    pieces.extend(piece for skill in skills for piece in _skill(skill))
    pieces.append(Piece("</available_skills>", document.source, line))
    return Part("skills", "skills", agent.scope, document.source, tuple(pieces))


def _skill(skill: Skill) -> Iterator[Piece]:
    """Yield the entry of a skill, each line from the line that says it; the id is that of the folder."""
    name = f"  <skill>\n    <name>{_escape(skill.name)}</name>\n"
    yield Piece(name, skill.source, skill.name_line)
    yield Piece(f"    <id>{skill.id}</id>\n", skill.source, 1)
    description = f"    <description>{_escape(skill.description)}</description>\n  </skill>\n"
    yield Piece(description, skill.source, skill.description_line)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def tool_list(agent: Agent, specs: tuple[ToolSpec, ...]) -> Part | None:
    """Name the tools, and say that there are no others. None without tools."""
    if not specs:
        return None
    document = agent.document
    pieces = []
    lead = "Your available tools: "
    for foreign, group in groupby(specs, key=lambda spec: spec.name.startswith(PREFIX)):
        names = lead + ", ".join(spec.name for spec in group)
        pieces.append(Piece(names, document.source, document.line("mcp" if foreign else "tools")))
        lead = ", "
    pieces.append(Piece(". Only use tools in this list.", document.source, document.line("tools")))
    return Part("tools", "tools", agent.scope, document.source, tuple(pieces))


_FORMAT = (
    'Your whole reply is one JSON object. To answer the user: {"reply": TEXT}. '
    'To call a tool first: {"tool": NAME, "arguments": {...}}; you are then given its result.'
)


def call_format(job: Compilation, specs: tuple[ToolSpec, ...]) -> Part | None:
    """Explain to a model without a tool protocol how it calls tools (`model.tool_mode: schema`).

    The schema of the reply itself is sent with the request; this is what the model reads.
    """
    model = job.model
    if not specs or model.tool_mode != "schema":
        return None
    lines = [
        "## How to answer",
        "",
        _FORMAT,
        "",
        *(f"- {_signature(spec)}: {one_line(spec.description)}" for spec in specs),
    ]
    line = line_of(job.tree, job.agent, model.source, (*model.path, "tool_mode"))
    piece = Piece("\n".join(lines), model.source, line)
    return Part("call-format", "call-format", model.scope, model.source, (piece,))


def _signature(spec: ToolSpec) -> str:
    """Write a tool as `name {"path": string, "limit"?: integer}`."""
    required = set(spec.parameters.get("required", ()))
    properties: dict[str, Any] = spec.parameters["properties"]
    arguments = ", ".join(
        f"{json.dumps(name)}{'' if name in required else '?'}: {_type(schema)}"
        for name, schema in properties.items()
    )
    return f"{spec.name} {{{arguments}}}"


def _type(schema: dict[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(v) for v in schema["enum"])
    kind = schema.get("type", "any")  # a server's schema may leave it out, or name several
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
