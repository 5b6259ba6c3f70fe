"""Spells tool calls as text: the schema of a reply that may be one, and histories in that format. Pure.

A reply is `{"reply": "…"}` or `{"tool": "name", "arguments": {…}}`; results are the user's text.
"""

import json
from collections.abc import Sequence
from typing import Any

from halo.models.call_arguments import arguments_object
from halo.records.messages import Block, Image, Message, Text, ToolCall, ToolResult
from halo.records.tools import ToolSpec


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Build the JSON Schema of a reply: an answer in words, or one call of one of `tools`."""
    answer = _object(reply={"type": "string"})
    calls = [
        _object(
            tool={"type": "string", "const": t.name},
            arguments=_moved(t.parameters, f"#/anyOf/{i}/properties/arguments"),
        )
        for i, t in enumerate(tools, 1)
    ]
    return {"anyOf": [answer, *calls]}


def _moved(schema: Any, to: str) -> Any:
    """Let what a schema refers to in itself (as those of MCP servers do) be found where it stands now."""
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: to + value[1:]
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _moved(value, to)
        for key, value in schema.items()
    }


class Spelling:
    """Spells histories that grow: what was spelt for an earlier request is the very same message again.

    So those who render it (`halo.models.rendering`) know it by identity. For one conversation at a time.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._seen: tuple[Message, ...] = ()
        self._spelt: list[Message] = []
        self._names: dict[str, str] = {}
        self.calls = 0  # in what was spelt last

    def of(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Spell a history: calls and answers as JSON, results as the user's text."""
        if messages[: len(self._seen)] != self._seen:
            self._clear()
        for message in messages[len(self._seen) :]:
            self._names |= {call.id: call.name for call in message.calls}
            self.calls += len(message.calls)
            if message.role == "assistant":
                self._spelt.append(Message("assistant", (Text(_said(message)),)))
            else:
                self._spelt.append(_heard(message, self._names))
        self._seen = messages
        return tuple(self._spelt)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _said(message: Message) -> str:
    """Render an assistant's message. Spaces as models write them: a reply then equals its own history."""
    said = [_dumps({"reply": message.text})] if message.text or not message.calls else []
    return "\n".join([*said, *(_dumps({"tool": c.name, "arguments": _decoded(c)}) for c in message.calls)])


def _heard(message: Message, names: dict[str, str]) -> Message:
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            name = names.get(block.call_id, "the tool")
            title = f"Error from {name}:" if block.is_error else f"Result of {name}:"
            blocks.extend((Text(f"{title}\n{block.text}"), *block.images))
        elif isinstance(block, (Text, Image)):
            blocks.append(block)
    return Message("user", tuple(blocks) or (Text(""),))


def _decoded(call: ToolCall) -> object:
    value = arguments_object(call.arguments)
    return call.arguments if value is None else value


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
