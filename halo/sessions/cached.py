"""What the provider's cache should still hold of a session that another process left."""

from datetime import datetime

from halo.models.cache_rules import rule_for
from halo.models.cache_watch import Earlier
from halo.records.artifacts import Artifact
from halo.sessions.history import Conversation


def earlier_call(conversation: Conversation, artifact: Artifact) -> Earlier | None:
    """Return the last call of a conversation, if a turn of `artifact` goes on where it ended.

    None after another artifact (another text, other tools or another model), and when the history has been
    shortened since.
    """
    last = conversation.last_call
    if last is None or last.artifact != artifact.id:
        return None
    try:
        at = datetime.fromisoformat(last.at).timestamp()
    except ValueError:
        return None  # the log holds a time that is none
    return Earlier(last.reported.usage, at, last.reported.prefix)


def is_cold(conversation: Conversation, artifact: Artifact, now: float) -> bool:
    """Tell whether a turn of `artifact` finds nothing of the history in a cache: then changing it is free.

    So it is where nothing is cached at all, where another prompt stood before it, and when the last call was
    too long ago. `now`: seconds since the epoch.
    """
    last = conversation.last_call
    rule = rule_for(artifact.runtime.binding, artifact.runtime.capabilities)
    if last is None:
        return False
    return rule is None or last.artifact != artifact.id or seconds_since(last.at, now) >= rule.life


def seconds_since(at: str, now: float) -> float:
    """Return the seconds from a recorded time until `now`; for what is no time, for ever."""
    try:
        return max(0.0, now - datetime.fromisoformat(at).timestamp())
    except (ValueError, OverflowError):
        return float("inf")
