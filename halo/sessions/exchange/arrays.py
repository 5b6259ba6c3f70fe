"""A session as an array of messages, as providers take it. Pure."""

from collections.abc import Iterable
from typing import Any, Literal

from halo.models import anthropic_wire
from halo.models.chat_wire import OPENAI, renderer
from halo.models.rendering import Rendering
from halo.records.events import NAMES, ContextShortened, Event
from halo.records.messages import Message, ToolCall, ToolResult
from halo.sessions.history import Conversation
from halo.sessions.reading import Unread

Provider = Literal["openai", "anthropic"]

_SHORTENED = NAMES[ContextShortened]


def spoken_in(found: Iterable[Event | Unread], *, tools: bool = True) -> tuple[Message, ...]:
    """Return all that was said, also what a model is not given any more; every call has its result."""
    conversation = Conversation()
    for each in found:
        if isinstance(each, Event) and each.type != _SHORTENED:
            conversation.add(each)
    history = conversation.history()
    return history if tools else _without_tools(history)


def _without_tools(history: Iterable[Message]) -> tuple[Message, ...]:
    left = (
        Message(m.role, tuple(b for b in m.content if not isinstance(b, (ToolCall, ToolResult))))
        for m in history
    )
    return tuple(message for message in left if message.content)


def array_of(history: tuple[Message, ...], provider: Provider) -> list[dict[str, Any]]:
    """Render messages for a provider: roles take turns, thoughts are those of that provider alone."""
    render = anthropic_wire.render if provider == "anthropic" else renderer(OPENAI)
    return Rendering(render).of(history).messages
