"""Rules about what a prompt costs: cached prefixes and sizes."""

from collections.abc import Iterator
from typing import NamedTuple

from halo.checks.subject import Prompt, Subject
from halo.models.prompt_counts import Counter, PromptCounts
from halo.records.artifacts import Manifest
from halo.records.diagnostics import Diagnostic
from halo.records.targets import AgentTarget
from halo.workspace.agents import Agent, read_agent, read_agent_body


def volatile_prefix(subject: Subject) -> Iterator[Diagnostic]:
    """H601: a slot before the environment segment: what follows is read anew in every request."""
    worst: dict[tuple[str, int], tuple[int, Prompt]] = {}
    for prompt in subject.agents:
        manifest = prompt.compiled.manifest
        if not manifest.slots:
            continue
        place = _slot_place(manifest)
        lost = _stable_tokens(manifest) - manifest.static_prefix.tokens
        if place is not None and lost > worst.get(place, (0, prompt))[0]:
            worst[place] = (lost, prompt)
    for (source, line), (lost, prompt) in worst.items():
        slot = prompt.compiled.manifest.slots[0]
        yield Diagnostic(
            "volatile-prefix",
            "warning",
            f"{{{{{slot.name}}}}} ends the cached prefix here:"
            f" about {lost:,} tokens of {prompt.target.label} are read anew in every request",
            source,
            line,
        )


def _slot_place(manifest: Manifest) -> tuple[str, int] | None:
    """Return source and line of the first slot; None when it is where slots belong."""
    first = manifest.slots[0]
    for segment in manifest.segments:
        if segment.start <= first.start < segment.end:
            if segment.kind == "environment":
                return None
            span = next(s for s in segment.spans if s.start == first.start)
            return span.source, span.line
    return None


def _stable_tokens(manifest: Manifest) -> int:
    """Return the tokens of all segments but the environment: what could be cached."""
    return sum(s.tokens for s in manifest.segments if s.kind != "environment")


def below_minimum(subject: Subject) -> Iterator[Diagnostic]:
    """H602: a prompt so short that its provider caches nothing, and says nothing of it."""
    for prompt in subject.agents:
        manifest = prompt.compiled.manifest
        least = minimum_cacheable(manifest)
        tokens = manifest.static_prefix.tokens
        if 0 < tokens < least:
            head = manifest.segments[0]
            yield Diagnostic(
                "below-cache-minimum",
                "info",
                f"{prompt.target.label}: about {tokens:,} tokens before the first slot;"
                f" the provider caches nothing below {least:,}",
                head.source,
                1,
            )


def minimum_cacheable(manifest: Manifest) -> int:
    """Return the smallest prefix in tokens that the model's provider caches; 0 where that is not known."""
    runtime = manifest.runtime
    return runtime.min_cacheable_tokens or 0 if runtime is not None else 0


def over_budget(subject: Subject, budget: int, count: Counter) -> Iterator[Diagnostic]:
    """H604: a prompt of more tokens than the user allows; few-shots and tool schemas are in the figure.

    Of the agents that come with Halo only those that are chosen: nobody can shorten them.
    """
    for prompt in subject.agents:
        agent = _agent(subject, prompt)
        if agent is None or (agent.scope == "builtin" and not subject.chosen):
            continue
        text, manifest = prompt.compiled.prompt, prompt.compiled.manifest
        if count(text, manifest, parts=False).total <= budget:
            continue
        counts = count(text, manifest, parts=True)
        largest = sorted(_parts(manifest, counts), key=lambda part: -part.tokens)[:3]
        yield Diagnostic(
            "over-budget",
            "error",
            f"{prompt.target.label} has {counts.label}, {counts.total - budget:,} more than {budget:,};"
            f" the largest parts: {', '.join(f'{part.name} ({part.tokens:,})' for part in largest)}",
            _text_of(subject, agent),
            1,
        )


def _agent(subject: Subject, prompt: Prompt) -> Agent | None:
    target = prompt.target
    return read_agent(subject.tree, target.agent) if isinstance(target, AgentTarget) else None


def _text_of(subject: Subject, agent: Agent) -> str:
    """Return where the agent's text stands: AGENT.md, or its agent.yaml where there is none."""
    body = read_agent_body(subject.tree, agent)
    return body.source if body is not None else agent.document.source


class _Part(NamedTuple):
    name: str
    tokens: int


def _parts(manifest: Manifest, counts: PromptCounts) -> Iterator[_Part]:
    """Yield what a prompt is made of: its segments, its few-shots, the schemas of its tools."""
    for segment, tokens in zip(manifest.segments, counts.segments, strict=True):
        yield _Part(segment.id, tokens)
    if manifest.few_shot_sources:
        yield _Part("few-shots", sum(counts.few_shots))
    if counts.tools:
        yield _Part("tool schemas", counts.tools)
