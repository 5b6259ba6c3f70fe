"""The events of a session's log (docs/reference/formats.md): one line each in `events.jsonl`.

An `Event` is the envelope; `data` stays raw until somebody wants it, so that types written by a newer
version are kept. The checksum belongs to the log (`halo.files.log`), not to the event.

Words from a closed list (a reason, a role) are plain `str` here: one that a later version adds must not make
the event unreadable, and a turn that ended with it has ended.
"""

from typing import Literal

import msgspec

from halo.records.incoming import Source
from halo.records.messages import Message, ToolResult
from halo.records.origins import Origin
from halo.records.outgoing import Outgoing
from halo.records.targets import AgentTarget
from halo.records.usage import Usage

FORMAT = 1

# What this version writes as the reason of `turn.ended`; it reads any.
EndReason = Literal[
    "done",
    "max_tokens",
    "steps",
    "tokens",
    "cost",
    "time",
    "storm",
    "silent",
    "refusal",
    "error",
    "interrupted",
    "gave_way",
    "stopped",
]


class Event(msgspec.Struct, frozen=True):
    """The envelope of an event.

    `seq` counts from 1 without gaps; `ts` is ISO 8601 in UTC with milliseconds; `turn` counts from 1, 0
    for what belongs to no turn.
    """

    format: int
    seq: int
    ts: str
    type: str
    turn: int
    data: msgspec.Raw


class Attached(msgspec.Struct, frozen=True):
    """What stands in the place of `data` that is too large for a line: the SHA-256 and length of its JSON.

    The JSON is the file `attachments/<sha256>.json` in the session's folder.
    """

    attachment: str
    bytes: int


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


class TurnStarted(msgspec.Struct, frozen=True, omit_defaults=True):
    """`turn.started`: the artifacts that this turn, and no other, runs from.

    `skills` and `scopes` map ids and directories to artifact ids. `session` repeats `session.created`, so
    that damage to the first line of a log costs that line alone.
    """

    artifact: str
    fingerprint: str
    skills: dict[str, str] = {}
    scopes: dict[str, str] = {}
    session: SessionCreated | None = None


class MessageAdded(msgspec.Struct, frozen=True, omit_defaults=True):
    """`message`: a user's or a model's message, as the model was and will be given it.

    `partial`: it broke off. `typed`: what the user typed, where rules of directories or a skill's text have
    been put into the message. `sources`: the messages of the inbox that it was made from. `internal`: Halo
    itself wrote it, or asked for it; it is never delivered.
    """

    message: Message
    partial: bool = False
    typed: str = ""
    sources: tuple[Source, ...] = ()
    internal: bool = False


class ToolResultAdded(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tool.result`: the answer to one call. `duration_ms` is wall time, `mended`: written by repair."""

    result: ToolResult
    tool: str
    duration_ms: int = 0
    mended: bool = False


class UsageReported(msgspec.Struct, frozen=True, omit_defaults=True):
    """`usage`: one model call. `model` is the id that the provider reported.

    `request_digest` is the SHA-256 of the rendered request body. `restored`: tokens of model state that
    were loaded from disk before the call (provider `local`). `expected`: tokens that should have come from
    the cache, by what was sent before. `cost` is in `currency`, None without a price. `attempts`: how often
    the call was made until it went through. `prefix` is a digest of the filled system text, the tools and the
    few-shots: when it changes, nothing is found in a cache.
    """

    provider: str
    model: str
    usage: Usage
    request_digest: str = ""
    stop_reason: str = ""
    restored: int = 0
    expected: int = 0
    cost: float | None = None
    currency: str = ""
    attempts: int = 1
    prefix: str = ""


class UsageLost(msgspec.Struct, frozen=True, omit_defaults=True):
    """`usage.lost`: an attempt of a model call failed, and these tokens had been counted by then.

    They are no part of the `usage` of the call. `cost` is in `currency`, None without a price.
    """

    provider: str
    model: str
    usage: Usage
    cost: float | None = None
    currency: str = ""


class Edit(msgspec.Struct, frozen=True):
    """Messages `start` to `end` (exclusive, from 0) of the history are replaced by `messages`."""

    start: int
    end: int
    messages: tuple[Message, ...] = ()


class ContextShortened(msgspec.Struct, frozen=True, omit_defaults=True):
    """`context.shortened`: what the model is given from now on in the place of earlier messages.

    `edits` are applied one after the other to the history as it was just before: that is how it is replayed,
    byte for byte, in this turn and every later one. Token counts are estimates. `strategy` is one of
    `Strategy` or `cap`; `reason` says what made it necessary. `messages_before` is how many messages that
    history had, None in older logs: where a log has lost some, the edits are not made.
    """

    strategy: str
    edits: tuple[Edit, ...]
    tokens_before: int = 0
    tokens_after: int = 0
    reason: str = ""
    messages_before: int | None = None


class Repaired(msgspec.Struct, frozen=True, omit_defaults=True):
    """`repaired`: something of the model's was mended or kept from running.

    `kind`: `arguments` (malformed JSON was mended; `before` is what the model wrote), `storm` (the same call
    again and again did not run), `orphan` (a call without a result, or a result without a call), `id` (an
    earlier call has the same id, `before`), `order` (results stood elsewhere), `empty` (a message of
    nothing).
    """

    kind: str
    call_id: str
    tool: str = ""
    before: str = ""
    note: str = ""


class TurnEnded(msgspec.Struct, frozen=True, omit_defaults=True):
    """`turn.ended`: why the turn is over (`EndReason`); `error` holds the message where it failed.

    `mended`: the process that ran it died, and the next one to open the session recorded its end.
    """

    reason: str
    error: str = ""
    mended: bool = False


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


EventData = (
    SessionCreated
    | SessionChanged
    | SessionRolledOver
    | ArtifactChanged
    | ChildStarted
    | ChildRemoved
    | ReportSent
    | AnswerTaken
    | DeliveryDue
    | Delivered
    | MemoryFlushed
    | CompactionFailed
    | TurnStarted
    | MessageAdded
    | ToolResultAdded
    | UsageReported
    | UsageLost
    | ContextShortened
    | Repaired
    | TurnEnded
)

TYPES: dict[str, type[EventData]] = {
    "session.created": SessionCreated,
    "session.changed": SessionChanged,
    "session.rolled_over": SessionRolledOver,
    "artifact.changed": ArtifactChanged,
    "child.started": ChildStarted,
    "child.removed": ChildRemoved,
    "report.sent": ReportSent,
    "answer.taken": AnswerTaken,
    "delivery.due": DeliveryDue,
    "delivery": Delivered,
    "memory.flushed": MemoryFlushed,
    "compaction.failed": CompactionFailed,
    "turn.started": TurnStarted,
    "message": MessageAdded,
    "tool.result": ToolResultAdded,
    "usage": UsageReported,
    "usage.lost": UsageLost,
    "context.shortened": ContextShortened,
    "repaired": Repaired,
    "turn.ended": TurnEnded,
}
NAMES: dict[type[EventData], str] = {kind: name for name, kind in TYPES.items()}
