"""Lays parts out as prompt.md and draws up the manifest: offsets, digests, slots, fingerprint."""

import msgspec

from halo.compiler.pieces import Part, Piece, without_suppressions
from halo.compiler.tokens import estimate
from halo.compiler.version import COMPILER
from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.records.artifacts import (
    FORMAT,
    FewShotSource,
    Manifest,
    Runtime,
    Segment,
    SkillCommand,
    SkillRef,
    Slot,
    Span,
    StaticPrefix,
    TeamMember,
)
from halo.records.diagnostics import Diagnostic
from halo.records.messages import Message
from halo.records.targets import Target
from halo.records.tools import ToolSpec

_RULE = "\n\n---\n\n"
_BLANK = "\n\n"


class Compiled(msgspec.Struct, frozen=True):
    """What a compile yields: the unfilled text and its manifest."""

    prompt: str
    manifest: Manifest


class Offer(msgspec.Struct, frozen=True):
    """Everything about an artifact that is not text."""

    tools: tuple[ToolSpec, ...] = ()
    skills: tuple[SkillRef, ...] = ()
    team: tuple[TeamMember, ...] = ()
    few_shots: tuple[Message, ...] = ()
    few_shot_sources: tuple[FewShotSource, ...] = ()
    commands: tuple[SkillCommand, ...] = ()
    runtime: Runtime | None = None


def fingerprint(prompt: str, tools: tuple[ToolSpec, ...], few_shots: tuple[Message, ...]) -> str:
    """Digest what the model is told: the unfilled text, the tool schemas, the few-shots.

    The fields are named one by one: a later field of a record must not change what was fingerprinted.
    """
    told = {
        "few_shots": [{"role": m.role, "content": m.content} for m in few_shots],
        "text": prompt,
        "tools": [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in tools],
    }
    return sha256(canonical_json(told))


def assemble(
    target: Target, parts: list[Part], offer: Offer, diagnostics: tuple[Diagnostic, ...]
) -> Compiled:
    """Join `parts`: a rule between two sections, else a blank line; one newline at the end.

    A divider belongs to the part that it introduces, so that removing a part removes its divider.
    """
    data = bytearray()
    segments: list[Segment] = []
    slots: list[Slot] = []
    for i, part in enumerate(parts):
        pieces = list(part.pieces)
        divider = ""
        if i:
            divider = _RULE if part.section and parts[i - 1].section else _BLANK
            pieces.insert(0, Piece(divider, pieces[0].source, pieces[0].line))
        if i == len(parts) - 1:
            pieces.append(Piece("\n", pieces[-1].source, pieces[-1].line))
        segments.append(_lay(part, pieces, divider.count("\n"), data, slots))
    prompt = data.decode()
    static = bytes(data[: slots[0].start] if slots else data)
    manifest = Manifest(
        format=FORMAT,
        compiler=COMPILER,
        target=target,
        fingerprint=fingerprint(prompt, offer.tools, offer.few_shots),
        static_prefix=StaticPrefix(len(static), estimate(static), sha256(static)),
        segments=tuple(segments),
        slots=tuple(slots),
        tools=offer.tools,
        skills=offer.skills,
        team=offer.team,
        few_shots=offer.few_shots,
        runtime=offer.runtime,
        diagnostics=diagnostics,
        few_shot_sources=offer.few_shot_sources,
        commands=offer.commands,
    )
    return Compiled(prompt, manifest)


def _lay(part: Part, pieces: list[Piece], divider_lines: int, data: bytearray, slots: list[Slot]) -> Segment:
    """Append `pieces` to `data`; note spans and slots; return the segment.

    Its lines are those of its own text, without the divider.
    """
    start = len(data)
    first_line = data.count(b"\n") + 1 + divider_lines
    spans: list[Span] = []
    volatile = False
    for piece in without_suppressions(pieces):
        begin = len(data)
        data += piece.text.encode()
        if len(data) == begin:
            continue
        spans.append(Span(begin, len(data), piece.source, piece.line, piece.verbatim))
        if piece.fill is not None:
            volatile = True
            slots.append(Slot(piece.fill.name, piece.fill.origin, begin, len(data), piece.fill.template))
    own = bytes(data[start:])
    return Segment(
        id=part.id,
        kind=part.kind,
        scope=part.scope,
        source=part.source,
        start=start,
        end=len(data),
        first_line=first_line,
        last_line=first_line + own.count(b"\n") - divider_lines - own.endswith(b"\n"),
        tokens=estimate(own),
        stability="volatile" if volatile else "static",
        digest=sha256(own),
        prefix_digest=sha256(bytes(data)),
        spans=tuple(spans),
        hides=part.hides,
    )
