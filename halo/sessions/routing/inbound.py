"""A message as a channel hands it over, and what a session remembers of where its messages come from."""

from collections.abc import Iterable

import msgspec

from halo.errors import SessionKeyError
from halo.records.channels import channel_name
from halo.records.origins import Origin

CHAT_TYPES = ("direct", "group", "channel")


class Inbound(msgspec.Struct, frozen=True):
    """The envelope of a message.

    `chat_type` is `direct` (or `dm`), `group` or `channel`; a message in a thread of any of them has a
    `thread`, in a topic of a forum a `topic`. `peer` is who wrote, `group` the group or room, `to` the
    address that was written to: ids as the channel writes them. `name` is the sender's, `label` the
    conversation's, for people. `event` names what a program sent (`heartbeat`, `cron`, `exec`); a person's
    message has none. `authorised`: the sender may use commands. Raises `SessionKeyError` for what is no
    channel or no type.
    """

    channel: str
    chat_type: str = "direct"
    account: str = ""
    peer: str = ""
    to: str = ""
    group: str = ""
    thread: str = ""
    topic: str = ""
    name: str = ""
    label: str = ""
    surface: str = ""
    text: str = ""
    event: str = ""
    authorised: bool = False

    def __post_init__(self) -> None:
        """Refuse an envelope that leads nowhere."""
        if not channel_name(self.channel):
            raise SessionKeyError(
                f"{self.channel!a} is not a name for a channel",
                hint="letters, digits, _, . and -; none of the words of a session key",
            )
        if self.type not in CHAT_TYPES:
            raise SessionKeyError(
                f"{self.chat_type!a} is not a type of conversation", hint=f"known: {', '.join(CHAT_TYPES)}"
            )

    @property
    def type(self) -> str:
        """`direct`, `group` or `channel`."""
        word = self.chat_type.lower()
        return "direct" if word == "dm" else word


def origin_of(inbound: Inbound) -> Origin:
    """Return what the envelope says of where a session's messages come from."""
    return Origin(
        label=inbound.label or (inbound.name if inbound.type == "direct" else inbound.group),
        provider=channel_name(inbound.channel),
        surface=inbound.surface,
        chat_type="thread" if inbound.thread or inbound.topic else inbound.type,
        sender=inbound.peer,
        to=inbound.to or inbound.group,
        account=inbound.account,
        thread=inbound.thread or inbound.topic,
    )


def merged(earlier: Origin, later: Origin) -> Origin:
    """Lay one origin over another: what the later one lacks stays as it was."""
    news = {name: getattr(later, name) for name in Origin.__struct_fields__ if getattr(later, name)}
    return msgspec.structs.replace(earlier, **news)


def updated(earlier: Origin, inbound: Inbound) -> Origin:
    """Return the origin after a message; what programs send changes nothing, so replies keep their way."""
    return earlier if inbound.event else merged(earlier, origin_of(inbound))


def without(origin: Origin, names: Iterable[str]) -> Origin:
    """Take fields of an origin back, which a message without them never does."""
    return msgspec.structs.replace(origin, **dict.fromkeys(names, ""))
