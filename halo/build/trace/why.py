"""Answers why a line stands in a prompt: its origins, who wrote them; or what there is instead."""

import re

import msgspec

from halo.build.builder import Builder
from halo.build.trace.blame import blame_lines
from halo.build.trace.blame_records import Authorship
from halo.build.trace.elsewhere import Elsewhere, find_elsewhere
from halo.build.trace.origins import Origin, PromptLine, prompt_lines
from halo.build.trace.search import Numbers, compile_pattern, matching_lines, near_lines, parse_numbers
from halo.errors import UsageError
from halo.records.artifacts import Artifact
from halo.records.targets import AgentTarget

FORMAT = 1


class Explained(Origin, frozen=True, kw_only=True, omit_defaults=True):
    """An origin with who wrote it."""

    blame: Authorship


class Line(msgspec.Struct, frozen=True):
    """A line of the prompt that was asked for."""

    line: int
    text: str
    segment: str
    origins: tuple[Explained, ...]


class Near(msgspec.Struct, frozen=True):
    """A line of the prompt that nearly says what was asked for."""

    line: int
    text: str


class Answer(msgspec.Struct, frozen=True):
    """What was asked of a target. Without `lines`, `near` and `elsewhere` say what there is instead.

    `unread`: what could not be looked at.
    """

    format: int
    target: str
    artifact: str
    lines: tuple[Line, ...]
    near: tuple[Near, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    unread: tuple[str, ...] = ()


def explain(builder: Builder, target: AgentTarget, wanted: str, *, regex: bool) -> Answer:
    """Find the lines `wanted` (a number, a range, a text; with `regex` an expression) and explain them.

    Raises `UsageError` for a line that the prompt does not have, and for a broken expression.
    """
    artifact = builder.ensure(target)
    lines = prompt_lines(artifact.prompt, artifact.manifest)
    numbers = None if regex else parse_numbers(wanted)
    if numbers is not None:
        return _found(builder, target, artifact, _between(lines, numbers, wanted))
    pattern = compile_pattern(wanted, regex=regex)
    chosen = [lines[number - 1] for number in matching_lines(artifact.prompt, pattern)]
    if chosen:
        return _found(builder, target, artifact, chosen)
    near = [] if regex else near_lines(artifact.prompt, wanted)
    return _missed(builder, target, artifact, pattern, [lines[number - 1] for number in near])


def _between(lines: list[PromptLine], numbers: Numbers, wanted: str) -> list[PromptLine]:
    if not 1 <= numbers.first <= min(numbers.last, len(lines)):
        raise UsageError(
            f"the prompt has the lines 1 to {len(lines)}, not {wanted}",
            hint=f"to look for the figures as text: -E {wanted}",
        )
    return lines[numbers.first - 1 : numbers.last]


def _found(builder: Builder, target: AgentTarget, artifact: Artifact, lines: list[PromptLine]) -> Answer:
    authors = blame_lines(builder.places, ((o.source, o.line) for line in lines for o in line.origins))
    return Answer(
        format=FORMAT,
        target=target.label,
        artifact=artifact.id,
        lines=tuple(
            Line(line.number, line.text, line.segment, tuple(_signed(o, authors) for o in line.origins))
            for line in lines
        ),
    )


def _signed(origin: Origin, authors: dict[tuple[str, int], Authorship]) -> Explained:
    return Explained(**msgspec.structs.asdict(origin), blame=authors[origin.source, origin.line])


def _missed(
    builder: Builder,
    target: AgentTarget,
    artifact: Artifact,
    pattern: re.Pattern[str],
    near: list[PromptLine],
) -> Answer:
    search = find_elsewhere(builder, target, artifact, pattern)
    return Answer(
        format=FORMAT,
        target=target.label,
        artifact=artifact.id,
        lines=(),
        near=tuple(Near(line.number, line.text) for line in near),
        elsewhere=search.found,
        unread=search.unread,
    )
