"""`general.session` of settings.yaml: which session a message reaches, when it ends, where replies may go."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from halo.records.channels import channel_name
from halo.workspace.models.config import Problem
from halo.workspace.settings.delegation import DelegationSettings
from halo.workspace.time_zone import is_zone_name

DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
ResetMode = Literal["never", "daily", "idle"]
SendAction = Literal["allow", "deny"]

NO_CHANNEL = "is not a name for a channel"
_CHANNEL_HINT = "letters, digits, _, . and -; none of the words of a session key"


class ResetRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a session ends and its key goes on in a new one. What is left out stands in the wider rule.

    `mode` left out is `daily` where an hour is given, `idle` where minutes are, else `never`. With `daily`
    and minutes, whichever comes first.
    """

    mode: Annotated[
        ResetMode | None,
        Meta(description="never, daily (at at_hour), or idle (after idle_minutes)."),
    ] = None
    at_hour: Annotated[
        Annotated[int, Meta(ge=0, le=23)] | None, Meta(description="The hour of daily; 4 if left out.")
    ] = None
    idle_minutes: Annotated[
        Annotated[int, Meta(ge=0, le=5_256_000)] | None,
        Meta(description="Minutes without a message of a person; 0: no such limit."),
    ] = None
    time_zone: Annotated[
        str | None, Meta(description="A name such as Europe/Oslo; the user's zone if left out.")
    ] = None


class ResetTypes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`reset_by_type`: what differs for one type of conversation. `dm` is another word for `direct`."""

    direct: Annotated[ResetRule | None, Meta(description="Conversations with one person.")] = None
    dm: Annotated[ResetRule | None, Meta(description="The same as direct.")] = None
    group: Annotated[ResetRule | None, Meta(description="Groups and channels.")] = None
    thread: Annotated[ResetRule | None, Meta(description="Threads and topics, wherever they are.")] = None


class SendMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a rule is for; what is left out matches everything."""

    channel: Annotated[str, Meta(description="The channel that a reply would go to.")] = ""
    chat_type: Annotated[
        Literal["direct", "dm", "group", "channel", "thread"] | None,
        Meta(description="direct (or dm), group, channel; thread for a thread in any of them."),
    ] = None
    key_prefix: Annotated[
        str, Meta(description="How the session key begins, without agent:<id>:; such as cron:.")
    ] = ""
    raw_key_prefix: Annotated[str, Meta(description="How the whole session key begins.")] = ""


class SendRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule of `send_policy`."""

    action: Annotated[SendAction, Meta(description="allow or deny.")]
    match: Annotated[SendMatch, Meta(description="What it is for; everything if left out.")] = SendMatch()


class SendPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`send_policy`: which replies are delivered to a channel. One rule that denies is enough."""

    rules: Annotated[tuple[SendRule, ...], Meta(description="Rules; their order does not matter.")] = ()
    default: Annotated[SendAction, Meta(description="What happens where no rule matches.")] = "allow"


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.session`."""

    dm_scope: Annotated[
        DmScope, Meta(description="Which direct messages share a session; main: those of all senders.")
    ] = "main"
    identity_links: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="A person's name, and who that is on each channel, such as telegram:123."),
    ] = {}
    reset: Annotated[ResetRule, Meta(description="When sessions end by themselves.")] = ResetRule()
    reset_by_type: ResetTypes = ResetTypes()
    reset_by_channel: Annotated[
        dict[str, ResetRule], Meta(description="By channel; replaces reset and reset_by_type there.")
    ] = {}
    reset_triggers: Annotated[
        tuple[str, ...], Meta(description="Messages that begin a new session; the rest is passed on.")
    ] = ("/new", "/reset")
    send_policy: SendPolicy = SendPolicy()
    delegation: DelegationSettings = DelegationSettings()


def session_problem(settings: SessionSettings) -> Problem | None:
    """Find what the types cannot say: the first fault, with its path below `general.session`."""
    return _link_problem(settings) or _reset_problem(settings) or _send_problem(settings)


def _link_problem(settings: SessionSettings) -> Problem | None:
    for name in settings.identity_links:
        if not name.strip() or not name.isprintable() or len(name) > 200:
            return Problem(
                ("identity_links", name), f"{name!a} is not a name for a person", "text on one line"
            )
    return None


def _reset_problem(settings: SessionSettings) -> Problem | None:
    if settings.reset_by_type.direct is not None and settings.reset_by_type.dm is not None:
        return Problem(("reset_by_type", "dm"), "dm is another word for direct; one of them is enough")
    names: dict[str, str] = {}
    for channel in settings.reset_by_channel:
        path, name = ("reset_by_channel", channel), channel_name(channel)
        if not name:
            return Problem(path, f"{channel!a} {NO_CHANNEL}", _CHANNEL_HINT)
        if name in names:
            return Problem(path, f"{names[name]!a} and {channel!a} are one channel")
        names[name] = channel
    for i, trigger in enumerate(settings.reset_triggers):
        if not trigger or trigger != trigger.strip():
            return Problem(("reset_triggers", i), f"{trigger!a} is not a trigger", "a word, such as /new")
    return _zone_problem(settings)


def _zone_problem(settings: SessionSettings) -> Problem | None:
    for path, rule in reset_rules(settings).items():
        if rule.time_zone is not None and not is_zone_name(rule.time_zone):
            return Problem(
                (*path, "time_zone"), f"{rule.time_zone!a} is not a time zone", "a name such as Europe/Oslo"
            )
    return None


def reset_rules(settings: SessionSettings) -> dict[tuple[str, ...], ResetRule]:
    """Return every rule of resets by its path below `general.session`."""
    found: dict[tuple[str, ...], ResetRule] = {("reset",): settings.reset}
    for name in ResetTypes.__struct_fields__:
        rule = getattr(settings.reset_by_type, name)
        if rule is not None:
            found["reset_by_type", name] = rule
    found.update({("reset_by_channel", name): rule for name, rule in settings.reset_by_channel.items()})
    return found


def _send_problem(settings: SessionSettings) -> Problem | None:
    for i, rule in enumerate(settings.send_policy.rules):
        channel = rule.match.channel
        if channel and not channel_name(channel):
            path = ("send_policy", "rules", i, "match", "channel")
            return Problem(path, f"{channel!a} {NO_CHANNEL}", _CHANNEL_HINT)
    return None
