"""The words that stand where something was left out. Pure."""

import msgspec

from halo.records.messages import Message, Text, ToolResult, user

ACTIVATE_SKILL = "activate_skill"

LEFT_OUT = user("[Earlier messages left out]")

_SUMMARY = "[Summary of the earlier conversation, which was left out to make room]"

# Longer names are no tool's: a model made them up.
_LONGEST_NAME = 64

# Characters of a result that is not worth a note. The notes of one result are shorter together, so that none
# is shortened itself.
_SHORT = 320


def summary_message(text: str) -> Message:
    """Make the message that stands for what was summarised."""
    return user(f"{_SUMMARY}\n\n{text}")


def is_note(message: Message) -> bool:
    """Tell whether a message stands for others that were left out."""
    return message == LEFT_OUT or (message.role == "user" and message.text.startswith(_SUMMARY))


def shortened(result: ToolResult, tool: str) -> ToolResult:
    """Put a note in the place of a result's text and pictures; the same where that makes it no shorter."""
    name = tool[:_LONGEST_NAME] if tool.isascii() and tool else "tool"
    seen = ""
    if result.images:
        count = len(result.images)
        seen = f"\n[{name}: {count} picture{'s' if count > 1 else ''} left out to make room]"
    text = result.text
    if len(text) > _SHORT - len(seen):
        text = f"[{name}: {len(text):,} characters left out to make room; call it again if they are needed]"
    text = f"{text}{seen}".lstrip("\n") if seen else text
    return result if text == result.text else msgspec.structs.replace(result, text=text, images=())


def without_results(message: Message, tools: dict[str, str], keep: frozenset[str]) -> Message:
    """Shorten the results of a message, except those of the calls in `keep`; `tools` maps calls to tools."""
    content = tuple(
        shortened(block, tools.get(block.call_id, ""))
        if isinstance(block, ToolResult) and block.call_id not in keep
        else block
        for block in message.content
    )
    return message if content == message.content else Message(message.role, content)


def skill_calls(message: Message) -> frozenset[str]:
    """Return the ids of the calls that load a skill."""
    return frozenset(call.id for call in message.calls if call.name == ACTIVATE_SKILL)


def invokes_skill(message: Message) -> bool:
    """Tell whether a user's message holds the text of a skill that it invokes (`/skill-id`)."""
    return message.role == "user" and any(
        isinstance(block, Text) and _opens_skill(block.text) for block in message.content
    )


def _opens_skill(text: str) -> bool:
    return text.startswith(_SKILL_TAG) or f"\n{_SKILL_TAG}" in text


_SKILL_TAG = '<skill id="'
