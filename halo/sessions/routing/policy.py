"""Which rule of resets holds for a session."""

from typing import Literal

from halo.records.channels import channel_name
from halo.sessions.routing.key import SessionKey
from halo.workspace.settings.resets import ResetPolicy, effective, over
from halo.workspace.settings.sessions import SessionSettings

ResetType = Literal["direct", "group", "thread"]


def reset_policy(settings: SessionSettings, key: SessionKey, channel: str) -> ResetPolicy:
    """Find the policy of a session whose messages come by `channel`.

    What is said for the channel replaces all else; what is said for the type lies over `reset`.
    """
    for name, rule in settings.reset_by_channel.items():
        if channel_name(name) == channel:
            return effective(rule, f"reset_by_channel.{name}")
    types, word = settings.reset_by_type, str(reset_type(key))
    if word == "direct" and types.direct is None:
        word = "dm"
    own = getattr(types, word)
    if own is None:
        return effective(settings.reset, "reset")
    return effective(over(settings.reset, own), f"reset_by_type.{word}")


def reset_type(key: SessionKey) -> ResetType:
    """Return the type of a key for resets: a channel's room counts as a group."""
    if key.kind == "thread":
        return "thread"
    return "group" if key.base in ("group", "channel") else "direct"
