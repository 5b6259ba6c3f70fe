"""What a turn should know of the one before: another prompt, the last call, a cache that has gone cold."""

from typing import NamedTuple

from halo.errors import ArtifactError
from halo.models.cache_rules import rule_for
from halo.models.cache_watch import Earlier
from halo.records.artifacts import Artifact
from halo.records.session_events import ArtifactChanged
from halo.sessions.cached import earlier_call, is_cold
from halo.sessions.desk import Desk
from halo.sessions.history import Conversation
from halo.sessions.long.changes import change_of, notice_of


class Before(NamedTuple):
    """`changed`: it has another artifact. `earlier` is what the cache should hold; `cold`: it does not."""

    changed: ArtifactChanged | None
    earlier: Earlier | None
    cold: bool

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user is told of it."""
        notice = notice_of(self.changed) if self.changed is not None else ""
        return (notice,) if notice else ()


def look_back(desk: Desk, conversation: Conversation, artifact: Artifact) -> Before:
    """Look at the turn before one of `artifact`, which has not begun."""
    now = desk.now_ns() / 1e9
    started, changed = conversation.started, None
    # What was imported ran from nothing that is known.
    if started is not None and started.artifact and started.artifact != artifact.id:
        earlier = _load(desk, started.artifact)
        runtime = (earlier or artifact).runtime
        rule = rule_for(runtime.binding, runtime.capabilities)
        changed = change_of(conversation, earlier, artifact, rule, now)
    return Before(changed, earlier_call(conversation, artifact), is_cold(conversation, artifact, now))


def _load(desk: Desk, identity: str) -> Artifact | None:
    try:
        return desk.builder.store.load(identity)
    except ArtifactError:
        return None  # collected, or the session came without it
