"""The built-in estimate of token counts, which the manifest uses on every machine alike."""

from halo.records.messages import Message, Text, ToolCall, ToolResult

# Bytes of UTF-8 a token. English prose has about 4.4 in today's vocabularies, Markdown and code 3 to 3.6,
# CJK text about 3; figures per model are a side matter, never part of an artifact.
_BYTES_A_TOKEN = 3.6


def estimate(data: bytes) -> int:
    """Estimate the tokens of UTF-8 text; 0 only for nothing."""
    return -int(-len(data) // _BYTES_A_TOKEN)


def spoken(message: Message) -> str:
    """Return all that a message says, for counting its tokens."""
    texts = []
    for block in message.content:
        match block:
            case Text() | ToolResult():
                texts.append(block.text)
            case ToolCall():
                texts.append(f"{block.name}{block.arguments}")
    return "".join(texts)
