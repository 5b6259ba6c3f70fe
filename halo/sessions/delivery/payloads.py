"""What is on its way to a channel, before it is a message."""

from typing import Literal

import msgspec

from halo.records.outgoing import FORMAT, Address, Outgoing
from halo.sessions.delivery.chunks import Chunk

# What a payload shows: an answer, thoughts, or something that Halo itself says.
Visibility = Literal["reply", "thinking", "notice"]
# A part of an answer while it is written, an answer when it is over, or something else.
Kind = Literal["block", "final", "other"]


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


def outgoing(payload: Payload, address: Address, reply: str, part: int) -> Outgoing:
    """Make the `part`-th message of a reply."""
    return Outgoing(
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
