"""Halo's own messages: what every provider's format is translated to and from.

`provider_data` is opaque and replayed only to the provider that made it (`provider` names it).
"""

from typing import Any, Literal

import msgspec


class ProviderData(msgspec.Struct, frozen=True):
    """What one provider wants back unread, such as the signature of its thinking."""

    provider: str
    data: dict[str, Any]


# `gc=False`: a history has a hundred thousand of them, and none is part of a cycle.
class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True, gc=False):
    """Words for the reader."""

    text: str
    provider_data: ProviderData | None = None


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True, gc=False):
    """What the model thought before it answered."""

    text: str
    provider_data: ProviderData | None = None


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_call", omit_defaults=True, gc=False):
    """The model wants a tool to run. `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str
    provider_data: ProviderData | None = None


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", omit_defaults=True, gc=False):
    """A picture: base64 of its bytes."""

    media_type: str
    data: str


class ToolResult(
    msgspec.Struct, frozen=True, tag_field="type", tag="tool_result", omit_defaults=True, gc=False
):
    """The answer to the call `call_id`."""

    call_id: str
    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


Block = Text | Thinking | ToolCall | ToolResult | Image


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a history: blocks in order, never empty."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        """All text blocks joined, without thinking."""
        return "".join([b.text for b in self.content if isinstance(b, Text)])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in it, in order."""
        return tuple([b for b in self.content if isinstance(b, ToolCall)])


def user(text: str) -> Message:
    """Make a user message of one text."""
    return Message("user", (Text(text),))
