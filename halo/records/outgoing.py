"""Messages on their way to a channel, as outboxes and webhooks write them (docs/reference/delivery.md)."""

import msgspec

FORMAT = 1


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message goes: the channel by its name in the settings, and ids as the channel writes them."""

    channel: str
    to: str = ""
    account: str = ""
    thread: str = ""


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
