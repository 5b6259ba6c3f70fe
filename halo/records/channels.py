"""Names of channels, and the words that give a session key its shape (docs/reference/session-keys.md)."""

import re

# Neither a channel nor, unescaped, an id in a key may be one of these: a key would read in two ways.
KEY_WORDS = frozenset(
    {
        *("agent", "main", "direct", "dm", "group", "channel", "thread", "topic"),
        *("cron", "run", "hook", "node", "subagent", "global", "unknown"),
    }
)

_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


def channel_name(text: str) -> str:
    """Return the channel that `text` names: in lower case; empty where it is no name for one."""
    name = text.strip().lower()
    if name in KEY_WORDS or name.startswith("node-") or ".." in name:
        return ""
    return name if _CHANNEL.fullmatch(name) else ""
