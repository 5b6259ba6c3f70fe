"""What a program may say to an agent."""

from collections.abc import Sequence

from halo.errors import UsageError
from halo.records.messages import Block, Message, Text, ToolCall, ToolResult, user

Input = str | Message | Sequence[Block]


def as_message(message: Input) -> Message:
    """Return a user's message. Raises UsageError for one without anything in it."""
    if isinstance(message, str):
        message = user(message)
    elif not isinstance(message, Message):
        message = Message("user", tuple(message))
    if message.role != "user" or not any(not isinstance(b, Text) or b.text.strip() for b in message.content):
        raise UsageError("a turn begins with a user's message that says something")
    if any(isinstance(block, (ToolCall, ToolResult)) for block in message.content):
        raise UsageError(
            "a message holds calls or results of tools",
            hint="submit_tool_results answers calls; take_history goes on from a conversation of elsewhere",
        )
    return message
