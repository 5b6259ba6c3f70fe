"""What a turn comes to: what is shown when it begins, and the reply when it is over."""

from collections.abc import Callable

import msgspec

from halo.records.artifacts import Artifact
from halo.records.events import UsageReported
from halo.records.targets import AgentTarget
from halo.records.usage import Usage
from halo.runner.turn import TurnEvent
from halo.sessions.folder import OpenSession

FORMAT = 1


class Began(msgspec.Struct, frozen=True):
    """A turn begins: which one, and what it runs from. `format` is that of the lines that follow."""

    format: int
    session: str
    turn: int
    agent: str
    artifact: str
    fingerprint: str

    @classmethod
    def of(cls, session: OpenSession, artifact: Artifact) -> "Began":
        """Tell of the current turn of `session`."""
        turn = session.conversation.turn
        fingerprint = artifact.manifest.fingerprint
        return cls(FORMAT, session.folder.id, turn, _agent(artifact), artifact.id, fingerprint)


# Is told what happens, when it is on disk; for the eyes alone, so what it raises breaks the turn off.
Show = Callable[[TurnEvent | Began], None]


class Reply(msgspec.Struct, frozen=True):
    """What a turn came to, as `halo run --format json` prints it; `format` is that of this record.

    `text` is all text of the turn; `usage` the sum of its calls, attempts that failed included; `reason` that
    of its `turn.ended`.
    """

    format: int
    session: str
    turn: int
    agent: str
    artifact: str
    fingerprint: str
    model: str
    text: str
    reason: str
    usage: Usage
    restored: int = 0


class Progress:
    """What a turn came to so far.

    `unrecorded` are words that were shown and are in no record yet.
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self.unrecorded: list[str] = []
        self.usage = Usage()
        self.model = ""
        self.restored = 0
        self.reason = ""

    def add(self, reported: UsageReported) -> None:
        """Count a model call."""
        self.usage += reported.usage
        self.model = reported.model
        self.restored = max(self.restored, reported.restored)

    def reply(self, session: OpenSession, artifact: Artifact) -> Reply:
        """Return what the turn came to."""
        return Reply(
            format=FORMAT,
            session=session.folder.id,
            turn=session.conversation.turn,
            agent=_agent(artifact),
            artifact=artifact.id,
            fingerprint=artifact.manifest.fingerprint,
            model=self.model,
            text="".join(self.text),
            reason=self.reason,
            usage=self.usage,
            restored=self.restored,
        )


def _agent(artifact: Artifact) -> str:
    target = artifact.manifest.target
    return target.agent if isinstance(target, AgentTarget) else ""
