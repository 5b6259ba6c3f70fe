"""Events of a session's log about the session: its beginning, settings, children, deliveries, notes.

Those of a turn, the envelope and the names of all types are in `halo.records.events`, which says more.
"""

import msgspec

from halo.records.origins import Origin
from halo.records.outgoing import Outgoing
from halo.records.targets import AgentTarget


class SessionTarget(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An `AgentTarget` on disk, spelt as in manifests, with plain words in the place of closed lists.

    Without the profile, which belongs to a turn.
    """

    kind: str
    agent: str
    role: str = "root"
    directory: str = ""
    mode: str = "full"
    platform: str = "posix"
    access: str = "full"

    @classmethod
    def of(cls, target: AgentTarget) -> "SessionTarget":
        """Write down `target`."""
        return msgspec.convert(msgspec.to_builtins(target), cls)

    def target(self) -> AgentTarget:
        """Return what was written down. Raises `msgspec.ValidationError` for words of a later version."""
        return msgspec.convert(msgspec.to_builtins(self), AgentTarget)


class SessionCreated(msgspec.Struct, frozen=True, omit_defaults=True):
    """`session.created`: whom it is with, and who began it (`cli`, `mcp`, a channel, `session`).

    `seal` proves that it was begun by this user on this machine; a session that came with the folder has
    no true one. `key` is the session key that leads here. `parent` started it, `root` is the one at the top,
    `depth` counts from 0 there. `previous` is the session that this one follows or was made from, for
    `reason`: the words of a reset, `fork` (of its turns up to `turns`) or `import`. Events up to the number
    `copied` are copies: they say what was said, but nothing in them was paid, started or set going here.
    """

    session: str
    target: SessionTarget
    origin: str
    seal: str = ""
    key: str = ""
    parent: str = ""
    root: str = ""
    depth: int = 0
    previous: str = ""
    reason: str = ""
    turns: int = 0
    copied: int = 0
    source: Origin | None = None


class SessionChanged(msgspec.Struct, frozen=True, omit_defaults=True):
    """`session.changed`: what a user, or an agent, set for this session; an empty `value` takes it back.

    `name` is one of `title`, `label`, `model`, `thinking`, `verbose`, `send`, `pin` (an artifact id),
    `archived`, `stopped` (why) or a word of a later version.
    """

    name: str
    value: str = ""
    by: str = ""


class SessionRolledOver(msgspec.Struct, frozen=True, omit_defaults=True):
    """`session.rolled_over`: messages of its key go to the session `to` from now on.

    `reason` is the word for why (`daily`, `idle`, a trigger such as `/new`), `inputs` what it was decided on.
    """

    to: str
    reason: str
    inputs: dict[str, str] = {}


class ArtifactChanged(msgspec.Struct, frozen=True, omit_defaults=True):
    """`artifact.changed`: the turn that begins runs from another artifact than the one before.

    `first` says what differs first (a segment with its source and line, tools, few-shots, the model);
    `tokens_lost` estimates what the provider had cached and will not find again.
    """

    before: str
    after: str
    first: str = ""
    tokens_lost: int = 0


class ChildStarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """`child.started`: this session started another. `cleanup` is `keep` or `delete`, `seconds` its limit."""

    session: str
    agent: str
    call_id: str = ""
    title: str = ""
    cleanup: str = "keep"
    seconds: float = 0.0


class ChildRemoved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`child.removed`: a session that was started to be deleted goes, with all below it.

    What they used stays used: `calls` of models, `tokens` sent and produced, `cost`.
    """

    session: str
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class ReportSent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`report.sent`: a report of this session, or its answer, lies in the inbox of `to` as the message `id`.

    `to` is empty where there was nobody to tell. `status` says how the turn ended.
    """

    to: str
    id: str
    status: str


class AnswerTaken(msgspec.Struct, frozen=True, omit_defaults=True):
    """`answer.taken`: the answer of `session` is the result of the call that runs.

    Messages with these `ids` would say the same once more, and are not taken. It counts when the result of
    the call is recorded.
    """

    session: str
    ids: tuple[str, ...]


class DeliveryDue(msgspec.Struct, frozen=True, omit_defaults=True):
    """`delivery.due`: a part of a reply is about to be sent to a channel."""

    message: Outgoing


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """`delivery`: what became of one part of a reply on its way to a channel.

    `id` is the channel's idempotency key, `part` counts from 1; `state` is `sent`, `failed`, `unsent` (an
    earlier part failed), `broken_off` (nobody knows whether it arrived; it is due again) or `denied`.
    """

    channel: str
    id: str
    part: int
    state: str
    attempts: int = 1
    error: str = ""


class MemoryFlushed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`memory.flushed`: notes were appended to a file of `.halo/memory/` before the history is shortened.

    `lines` were new; `skipped` says what was not written, and why.
    """

    file: str = ""
    lines: int = 0
    skipped: str = ""


class CompactionFailed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`compaction.failed`: there is no summary, and the history, of about `tokens`, is as it was.

    `reason` says what made one necessary, as in `context.shortened`.
    """

    problem: str
    reason: str = ""
    tokens: int = 0
