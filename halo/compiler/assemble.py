"""Lays parts out as prompt.md and draws up the manifest: offsets, digests, slots, fingerprint."""

import hashlib

import msgspec

from halo.compiler.pieces import Part, Piece, without_suppressions
from halo.compiler.tokens import estimate
from halo.compiler.version import COMPILER
from halo.errors import LayerError
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

# Bytes and lines of a prompt. No model reads as much; values that placeholders repeat must not fill the
# memory, nor what is kept of each line by who explains or checks a prompt.
MOST_BYTES = 16 * 1024 * 1024
MOST_LINES = 200_000


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

    A divider belongs to the part that it introduces, so that removing a part removes its divider. Raises
    `LayerError` for a prompt of more than 16 MiB or 200,000 lines.
    """
    layout = _Layout()
    segments: list[Segment] = []
    for i, part in enumerate(parts):
        pieces = list(part.pieces)
        divider = ""
        if i:
            divider = _RULE if part.section and parts[i - 1].section else _BLANK
            pieces.insert(0, Piece(divider, pieces[0].source, pieces[0].line))
        if i == len(parts) - 1:
            pieces.append(Piece("\n", pieces[-1].source, pieces[-1].line))
        segments.append(layout.add(part, pieces, divider.count("\n")))
    data, slots = bytes(layout.data), layout.slots
    prompt = data.decode()
    static = data[: slots[0].start] if slots else data
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


class _Layout:
    """The prompt as far as it is laid out: its bytes, their running digest, its lines and slots."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.slots: list[Slot] = []
        self._digest = hashlib.sha256()
        self._newlines = 0
        self._templates = 0  # bytes of the slots' templates, which the manifest repeats

    def add(self, part: Part, pieces: list[Piece], divider_lines: int) -> Segment:
        """Append `pieces`; note spans and slots; return the segment.

        Its lines are those of its own text, without the divider.
        """
        start = len(self.data)
        first_line = self._newlines + 1 + divider_lines
        spans: list[Span] = []
        volatile = False
        for piece in without_suppressions(pieces):
            begin = len(self.data)
            self._append(piece)
            end = len(self.data)
            if end == begin:
                continue
            spans.append(Span(begin, end, piece.source, piece.line, piece.verbatim))
            if piece.fill is not None:
                volatile = True
                self.slots.append(Slot(piece.fill.name, piece.fill.origin, begin, end, piece.fill.template))
        own = bytes(self.data[start:])
        self._digest.update(own)
        return Segment(
            id=part.id,
            kind=part.kind,
            scope=part.scope,
            source=part.source,
            start=start,
            end=len(self.data),
            first_line=first_line,
            last_line=self._newlines + 1 - own.endswith(b"\n"),
            tokens=estimate(own),
            stability="volatile" if volatile else "static",
            digest=sha256(own),
            prefix_digest=self._digest.hexdigest(),
            spans=tuple(spans),
            hides=part.hides,
        )

    def _append(self, piece: Piece) -> None:
        data = piece.text.encode()
        if piece.fill is not None:
            self._templates += len(piece.fill.template)
        self._newlines += data.count(b"\n")
        large = len(self.data) + self._templates + len(data) > MOST_BYTES
        if large or self._newlines > MOST_LINES:
            raise LayerError(
                "here the prompt grows beyond "
                + (f"{MOST_BYTES:,} bytes" if large else f"{MOST_LINES:,} lines"),
                file=piece.source,
                line=piece.line,
                hint="shorten the layers; what large data an agent needs, it reads with its tools",
            )
        self.data += data
