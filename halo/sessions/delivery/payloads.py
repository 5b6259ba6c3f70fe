"""What is on its way to a channel: payloads while they may still be merged, then messages."""

from typing import Literal

import msgspec

from halo.sessions.delivery.chunks import Chunk

FORMAT = 1

# What a payload shows: an answer, thoughts, or something that Halo itself says.
Visibility = Literal["reply", "thinking", "notice"]
# A part of an answer while it is written, an answer when it is over, or something else.
Kind = Literal["block", "final", "other"]


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message goes: the channel by its name in the settings, and ids as the channel writes them."""

    channel: str
    to: str = ""
    account: str = ""
    thread: str = ""


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to be sent, before it is a message.

    `opening` and `closing` are Halo's own lines around `text`, `separator` is what follows it in the answer;
    None where it is no part of one. `media` are addresses or paths that the channel knows how to send; `data`
    is what only the channel itself understands. `alone`: it is never merged with another.
    """

    text: str = ""
    kind: Kind = "block"
    opening: str = ""
    closing: str = ""
    separator: str | None = None
    reply_to: str = ""
    media: tuple[str, ...] = ()
    data: str = ""
    visibility: Visibility = "reply"
    alone: bool = False

    @classmethod
    def of(cls, chunk: Chunk, kind: Kind, *, reply_to: str = "", alone: bool = False) -> "Payload":
        """Make a payload of a part of an answer."""
        return cls(
            chunk.text,
            kind,
            opening=chunk.opening,
            closing=chunk.closing,
            separator=chunk.separator,
            reply_to=reply_to,
            alone=alone,
        )

    @property
    def is_text(self) -> bool:
        """Whether it is text and nothing else."""
        return bool(self.text) and not self.media and not self.data

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not (self.text.strip() or self.media or self.data)


class Outgoing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message for a channel, as outboxes and webhooks write it (docs/reference/delivery.md).

    `id` is the same for every attempt and sorts by reply and part; `reply` names the reply, `part` counts
    from 1 in it. `text` is what is shown; with `separator`, what the answer has between this part and the
    next one, and without the lines `opening` and `closing`, all parts joined are the answer.
    """

    format: int
    id: str
    reply: str
    part: int
    kind: str
    address: Address
    text: str = ""
    opening: str = ""
    closing: str = ""
    separator: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    data: str = ""
    visibility: str = "reply"

    @classmethod
    def of(cls, payload: Payload, address: Address, reply: str, part: int) -> "Outgoing":
        """Make the `part`-th message of a reply."""
        return cls(
            FORMAT,
            f"{reply}.{part:05}",
            reply,
            part,
            payload.kind,
            address,
            payload.text,
            payload.opening,
            payload.closing,
            payload.separator or "",
            payload.reply_to,
            payload.media,
            payload.data,
            payload.visibility,
        )


def reply_id(session: str, turn: int, at: str) -> str:
    """Return the id of the reply of a turn; `at` is the time of its `turn.started`.

    Ids sort by time, and are names for files on every system.
    """
    moment = "".join(char for char in at.lower() if char.isalnum())
    return f"{moment}-{session}-{turn:06}"
