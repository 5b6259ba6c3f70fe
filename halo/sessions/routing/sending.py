"""Whether a reply may go out to a channel."""

import msgspec

from halo.errors import SessionKeyError
from halo.records.channels import KEY_WORDS, channel_name
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.key import SessionKey
from halo.workspace.settings.sessions import SendMatch, SendPolicy


class SendDecision(msgspec.Struct, frozen=True):
    """Whether a reply may be sent, and why."""

    allowed: bool
    reason: str


def decide_sending(
    policy: SendPolicy, key: SessionKey, *, channel: str = "", override: str = ""
) -> SendDecision:
    """Decide about the replies of a session to `channel`, by default that of its key.

    The session's own `override` (`allow` or `deny`) counts before all rules. One rule that denies is enough,
    wherever it stands; then one that allows; then the default.
    """
    if override in ("allow", "deny"):
        return SendDecision(override == "allow", f"this session is set to {override}")
    where = channel_name(channel) or key.channel
    matching = [(i, rule) for i, rule in enumerate(policy.rules, 1) if _matches(rule.match, key, where)]
    for action in ("deny", "allow"):
        for number, rule in matching:
            if rule.action == action:
                return SendDecision(action == "allow", f"rule {number} of send_policy says {action}")
    return SendDecision(policy.default == "allow", f"the default of send_policy is {policy.default}")


def _matches(match: SendMatch, key: SessionKey, channel: str) -> bool:
    if match.channel and channel_name(match.channel) != channel:
        return False
    if match.chat_type is not None and _type(match.chat_type) not in (_type(key.base), key.kind):
        return False
    return _begins_as(match.key_prefix, key) and _begins_raw(match.raw_key_prefix, key)


def _type(word: str) -> str:
    return "direct" if word in ("dm", "main") else word


def _begins_as(text: str, key: SessionKey) -> bool:
    """Tell whether a key begins with `text`, spelt as any command takes it, or cut off anywhere."""
    text = text.strip()
    return key.rest.startswith(_prefix(text, key)) or _is_spelt(text, key)


def _begins_raw(text: str, key: SessionKey) -> bool:
    text = text.strip()
    named = text.lower().startswith("agent:")
    return key.text.startswith(_raw_prefix(text, key)) or (named and _is_spelt(text, key))


def _is_spelt(text: str, key: SessionKey) -> bool:
    """Tell whether `text` is a key, with its ids as people write them, and `key` begins as that one."""
    try:
        whole = parse_key(text.rstrip(":"), agent=key.agent).text
    except SessionKeyError:
        return False
    return key.text.startswith(whole + ":" * text.endswith(":"))


def _prefix(text: str, key: SessionKey) -> str:
    """Spell the beginning of a key as keys are spelt: words and the channel in lower case, `dm` as direct."""
    segments = text.strip().split(":")
    for i, segment in enumerate(segments):
        word = segment.lower()
        if word in KEY_WORDS or (i == 0 and key.channel):
            segments[i] = "direct" if word == "dm" else word
        if word in KEY_WORDS:
            break  # ids follow
    return ":".join(segments)


def _raw_prefix(text: str, key: SessionKey) -> str:
    head, agent, rest = [*text.strip().split(":", 2), "", ""][:3]
    if head.lower() != "agent":
        return text.strip()
    return ":".join(["agent", agent, _prefix(rest, key)]) if rest else text.strip()
