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
from halo.records.session_events import (
    AnswerTaken,
    ArtifactChanged,
    ChildRemoved,
    ChildStarted,
    CompactionFailed,
    Delivered,
    DeliveryDue,
    MemoryFlushed,
    ReportSent,
    SessionChanged,
    SessionCreated,
    SessionRolledOver,
)
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
