"""A turn begins from another artifact than the one before: what differs first, and what that costs. Pure."""

from halo.build.diff.locating import Located, common_characters
from halo.compiler.assemble import Compiled
from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.cache_rules import CacheRule
from halo.models.prefix import Prefix, PrefixChange, compare
from halo.records.artifacts import Artifact
from halo.records.session_events import ArtifactChanged
from halo.sessions.cached import seconds_since
from halo.sessions.history import Conversation

_UNSEEN = "nothing that the model is told"


def change_of(
    conversation: Conversation,
    before: Artifact | None,
    after: Artifact,
    rule: CacheRule | None,
    now: float,
) -> ArtifactChanged | None:
    """Return the event of a turn that runs from `after`; None where the turn before did, or there is none.

    `before` is the artifact of the turn before, None where it is not here any more. `rule` says what the
    provider that had it in its cache promises, None where nothing is cached. `now`: seconds since the epoch.
    """
    started = conversation.started
    if started is None or started.artifact == after.id:
        return None
    cached = _cached(conversation, rule, now)
    if before is None:
        return ArtifactChanged(started.artifact, after.id, "the artifact before is not here any more", cached)
    if _answers(before) != _answers(after):
        return ArtifactChanged(
            before.id, after.id, f"the model: {_model(after)} was {_model(before)}", cached
        )
    change = compare(_prefix(before), _prefix(after))
    if change is None:
        return ArtifactChanged(before.id, after.id, _UNSEEN)
    return ArtifactChanged(
        before.id, after.id, _first(change, before, after), max(0, cached - _kept(change, before))
    )


def notice_of(changed: ArtifactChanged) -> str:
    """Tell the user; empty where a change costs nothing and the model is told the same."""
    if changed.first == _UNSEEN:
        return ""
    lost = f"; about {changed.tokens_lost:,} cached tokens are lost" if changed.tokens_lost else ""
    return f"note: the prompt is not the one of the last turn: {changed.first}{lost}"


def _cached(conversation: Conversation, rule: CacheRule | None, now: float) -> int:
    """Return what the provider still has of the last request, as far as can be known."""
    last = conversation.last_call
    if last is None or rule is None or conversation.started is None:
        return 0
    if last.artifact != conversation.started.artifact or seconds_since(last.at, now) >= rule.life:
        return 0
    return rule.held(last.reported.usage)


def _prefix(artifact: Artifact) -> Prefix:
    manifest = artifact.manifest
    return Prefix(artifact.prompt, "", manifest.tools, manifest.few_shots)


def _first(change: PrefixChange, before: Artifact, after: Artifact) -> str:
    """Say what differs first; of the text its segment, and the line of the source that it comes from."""
    if change.part != "system":
        return str(change).rpartition(" (about ")[0]
    old, new = (Located(Compiled(a.prompt, a.manifest)) for a in (before, after))
    byte = common_characters(old.data, new.data)
    # Where text was only taken away at the end, the old side knows what it was.
    place = (new if byte < len(new.data) else old).place(byte)
    return f"segment {place.segment.id} ({place.source}:{place.line})"


def _kept(change: PrefixChange, before: Artifact) -> int:
    """Estimate the tokens in front of the first difference: they are found again."""
    if change.part == "tools":
        return 0
    tools = sum(estimate(canonical_json(tool)) for tool in before.manifest.tools)
    data = before.prompt.encode()
    if change.part == "system":
        return tools + estimate(data[: change.byte])
    shots = before.manifest.few_shots[: change.message - 1]
    return tools + estimate(data) + sum(estimate(canonical_json(shot)) for shot in shots)


def _answers(artifact: Artifact) -> tuple[str, ...]:
    binding = artifact.runtime.binding
    return (binding.provider, binding.model, binding.endpoint, artifact.runtime.tool_mode)


def _model(artifact: Artifact) -> str:
    binding = artifact.runtime.binding
    return f"{binding.provider}/{binding.model}"
