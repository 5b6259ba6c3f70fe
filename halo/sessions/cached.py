"""What the provider's cache should still hold of a session that another process left."""

from datetime import datetime

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
