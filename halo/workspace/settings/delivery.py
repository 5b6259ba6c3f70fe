"""`general.delivery` of settings.yaml: how answers reach channels (docs/reference/delivery.md).

What a channel, or an account of it, leaves out is as it is one level above.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from halo.records.channels import channel_name
from halo.workspace.models.config import Problem

Count = Annotated[int, Meta(ge=0, le=1_000_000)]

T = TypeVar("T", bound=msgspec.Struct)


class ChunkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the text of an answer is cut. Sizes are characters."""

    min_chars: Annotated[Count | None, Meta(description="Breaks before it are second choice.")] = None
    max_chars: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="No part is longer.")
    ] = None
    break_preference: Annotated[
        Literal["paragraph", "newline", "sentence"] | None,
        Meta(description="The kind of break that is looked for first."),
    ] = None
    flush_on_paragraph: Annotated[
        bool | None, Meta(description="Whether a blank line ends every part that has min_chars.")
    ] = None


class CoalesceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How parts that come close after one another are merged."""

    min_chars: Annotated[Count | None, Meta(description="Less is not sent before the message ends.")] = None
    max_chars: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="Nothing merged is longer.")
    ] = None
    idle_ms: Annotated[
        Annotated[int, Meta(ge=0, le=600_000)] | None,
        Meta(description="What waits is sent when nothing came for so long."),
    ] = None


class HumanDelay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Pauses between the parts of an answer, behind the first."""

    mode: Annotated[
        Literal["off", "natural", "custom"] | None,
        Meta(description="off, natural (800 to 2,500 ms), or custom (min_ms to max_ms)."),
    ] = None
    min_ms: Annotated[Annotated[int, Meta(ge=0, le=600_000)] | None, Meta(description="For custom.")] = None
    max_ms: Annotated[Annotated[int, Meta(ge=0, le=600_000)] | None, Meta(description="For custom.")] = None


class DeliveryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be said for all channels, for one, and for one account of it."""

    block_streaming: Annotated[
        bool | None, Meta(description="Whether parts are sent while the answer is written.")
    ] = None
    block_break: Annotated[
        Literal["text_end", "message_end"] | None,
        Meta(description="Parts go out as they are found, or when the model's message is over."),
    ] = None
    chunk: ChunkSettings = ChunkSettings()
    coalesce: CoalesceSettings = CoalesceSettings()
    human_delay: HumanDelay = HumanDelay()
    text_limit: Annotated[
        Annotated[int, Meta(le=1_000_000)] | None,
        Meta(description="The most characters of a message; 0 or less: any number."),
    ] = None
    chunk_mode: Annotated[
        Literal["length", "newline"] | None,
        Meta(description="Cut where messages get too long, or make every paragraph a message."),
    ] = None
    max_lines_per_message: Annotated[
        Count | None, Meta(description="The most lines of a message; 0: any number.")
    ] = None
    drafts: Annotated[
        Literal["off", "partial", "block"] | None,
        Meta(description="Whether the channel shows the answer while it is written: each word, or in parts."),
    ] = None
    draft_chunk: ChunkSettings = ChunkSettings()
    send_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=3_600)] | None, Meta(description="How long one attempt may take.")
    ] = None


class Connect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a channel is reached. One value: an address of one file never gets the secret of another."""

    type: Annotated[
        str, Meta(description="The entry point of the group halo.channels; the channel's name if left out.")
    ] = ""
    params: Annotated[
        dict[str, str], Meta(description="What that needs; <<NAME>> for a variable's value.")
    ] = {}


class AccountSettings(DeliveryOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An account of a channel."""

    connect: Annotated[Connect | None, Meta(description="How this account is reached.")] = None


class ChannelSettings(DeliveryOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A channel."""

    connect: Annotated[Connect | None, Meta(description="How it is reached.")] = None
    accounts: Annotated[
        dict[str, AccountSettings], Meta(description="What differs for an account, by its id.")
    ] = {}


class AgentDelivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What differs for an agent."""

    human_delay: HumanDelay = HumanDelay()


class DeliverySettings(DeliveryOptions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`general.delivery`."""

    channels: Annotated[dict[str, ChannelSettings], Meta(description="By the channel's name.")] = {}
    agents: Annotated[dict[str, AgentDelivery], Meta(description="By the agent's id.")] = {}

    def channel(self, name: str) -> ChannelSettings:
        """Return what is said of a channel, whatever the case of its name."""
        wanted = channel_name(name)
        return next(
            (found for said, found in self.channels.items() if channel_name(said) == wanted),
            ChannelSettings(),
        )

    def options(self, channel: str, account: str = "") -> DeliveryOptions:
        """Return what counts for an account of a channel."""
        found = self.channel(channel)
        return laid_over(DeliveryOptions, self, found, account_of(found, account) or DeliveryOptions())


def account_of(channel: ChannelSettings, account: str) -> AccountSettings | None:
    """Return what is said of an account: of exactly this id, else of one that differs in case alone."""
    if account in channel.accounts:
        return channel.accounts[account]
    near = account.casefold()
    return next((found for said, found in channel.accounts.items() if said.casefold() == near), None)


def laid_over(kind: type[T], *levels: msgspec.Struct) -> T:
    """Lay settings of `kind` over one another: what a later one leaves out is as before."""
    values: dict[str, Any] = {}
    for field in kind.__struct_fields__:
        said = [getattr(level, field) for level in levels]
        if isinstance(said[0], msgspec.Struct):
            values[field] = laid_over(type(said[0]), *said)
        else:
            values[field] = next((value for value in reversed(said) if value is not None), None)
    return kind(**values)


def connects(settings: DeliverySettings) -> Iterator[tuple[tuple[str, ...], Connect]]:
    """Yield every connection with its path below `general.delivery`."""
    for name, channel in settings.channels.items():
        if channel.connect is not None:
            yield ("channels", name, "connect"), channel.connect
        for account, found in channel.accounts.items():
            if found.connect is not None:
                yield ("channels", name, "accounts", account, "connect"), found.connect


def delivery_problem(settings: DeliverySettings) -> Problem | None:
    """Find what the types cannot say: the first fault, with its path below `general.delivery`."""
    names: dict[str, str] = {}
    for channel in settings.channels:
        name = channel_name(channel)
        if not name:
            return Problem(("channels", channel), f"{channel!a} is not a name for a channel")
        if name in names:
            return Problem(("channels", channel), f"{names[name]!a} and {channel!a} are one channel")
        names[name] = channel
    for path, connect in connects(settings):
        if not re.fullmatch(r"[A-Za-z0-9_.-]*", connect.type):
            return Problem((*path, "type"), f"{connect.type!a} is not the name of an entry point")
        for name, value in connect.params.items():
            if "\0" in value or not value.isprintable():
                return Problem((*path, "params", name), "a value is text on one line")
    return None
