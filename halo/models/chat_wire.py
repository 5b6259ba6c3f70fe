"""Requests of Chat Completions as JSON, in the dialects of those who speak it. Pure.

`openai_chat` sends them through the real client, `local` over plain HTTP to llama.cpp. What comes back is
read by `chat_stream`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from halo.models.adapter import Request
from halo.models.rendering import Render
from halo.models.strict_schemas import is_strict
from halo.records.artifacts import Binding
from halo.records.messages import Block, Image, Message, Text, Thinking, ToolResult
from halo.records.tools import ToolSpec


class Dialect(msgspec.Struct, frozen=True):
    """How one server's protocol differs from the next one's.

    `bound` names the field that bounds a reply, `sampling` the options that are understood. `schema`: how a
    reply is constrained; `json_object` knows no schema, so that it is told in words. `thinking`: by
    `reasoning_effort` alone, by a switch beside it, or not at all. `returns_thoughts`: the model's thoughts
    go back to it.
    """

    bound: Literal["max_tokens", "max_completion_tokens"]
    sampling: tuple[str, ...]
    schema: Literal["json_schema", "json_object"] = "json_schema"
    thinking: Literal["effort", "switch", "none"] = "effort"
    returns_thoughts: bool = False


OPENAI = Dialect("max_completion_tokens", ("temperature", "top_p", "seed"))
COMPATIBLE = Dialect("max_tokens", ("temperature", "top_p", "top_k", "seed"))
LOCAL = Dialect("max_tokens", ("temperature", "top_p", "top_k", "seed"), thinking="none")
DEEPSEEK = Dialect("max_tokens", ("temperature", "top_p"), "json_object", "switch", returns_thoughts=True)

Json = dict[str, Any]


def chat_body(request: Request, messages: Sequence[Json], dialect: Dialect) -> Json:
    """Build the body of a streamed call out of its rendered history."""
    binding = request.binding
    body: Json = {
        "model": binding.model,
        "messages": [*_system(request.prefix.system), *messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        dialect.bound: binding.max_tokens,
    }
    for name in dialect.sampling:
        value = getattr(binding, name)
        if value is not None:
            body[name] = value
    body |= _thinking(binding, dialect)
    if request.prefix.tools:
        body["tools"] = chat_tools(request.prefix.tools)
        if request.tool_choice == "none":
            body["tool_choice"] = "none"
    if request.response_schema is not None:
        _constrain(body, request.response_schema, dialect)
    return body


def unsent(binding: Binding, dialect: Dialect) -> list[str]:
    """Name the options of `binding` that this dialect has no word for."""
    names = [
        name
        for name in ("top_k", "seed")
        if name not in dialect.sampling and getattr(binding, name) is not None
    ]
    if binding.thinking is not None and binding.thinking.budget_tokens is not None:
        names.append("thinking.budget_tokens")
    return names


def chat_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    """Render tool specifications."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools
    ]


def renderer(dialect: Dialect) -> Render:
    """Return what renders one message whose neighbours have the other role."""
    return partial(_render, dialect=dialect)


def _system(system: str) -> list[Json]:
    return [{"role": "system", "content": system}] if system else []


def _thinking(binding: Binding, dialect: Dialect) -> Json:
    asked = binding.thinking
    if asked is None or dialect.thinking == "none":
        return {}
    effort = {"reasoning_effort": asked.effort} if asked.effort else {}
    if dialect.thinking == "effort":
        return effort
    if asked.effort == "none":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, **effort}


def _constrain(body: Json, schema: Json, dialect: Dialect) -> None:
    if dialect.schema == "json_schema":
        # Strict where the schema lets it be: strict mode allows no optional properties.
        constraint = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": constraint}
        return
    body["response_format"] = {"type": "json_object"}
    told = "Answer with one JSON object and nothing else. It follows this JSON Schema: "
    words = told + msgspec.json.encode(schema).decode()
    messages = body["messages"]
    # At the very end, so that the cached prefix stays what it is.
    if messages and messages[-1]["role"] == "user":
        messages[-1] = {**messages[-1], "content": _and(messages[-1]["content"], words)}
    else:
        messages.append({"role": "user", "content": words})


def _and(content: str | list[Json], words: str) -> str | list[Json]:
    if isinstance(content, str):
        return f"{content}\n\n{words}"
    return [*content, {"type": "text", "text": words}]


def _render(message: Message, *, dialect: Dialect) -> Iterator[Json]:
    """Render a message; each tool result is a message of its own."""
    return _user(message) if message.role == "user" else _assistant(message, dialect)


def _assistant(message: Message, dialect: Dialect) -> Iterator[Json]:
    text, calls = message.text, message.calls
    if not text and not calls:
        return
    rendered: Json = {"role": "assistant", "content": text}
    if calls:
        rendered["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in calls
        ]
        rendered["content"] = text or None
    if dialect.returns_thoughts:
        # Also an empty one: without the field the request is refused.
        rendered["reasoning_content"] = _own_thoughts(message)
    yield rendered


def _own_thoughts(message: Message) -> str:
    """Return what the model itself thought, marked so by `chat_stream`; thoughts of others stay home."""
    return "".join(
        b.text
        for b in message.content
        if isinstance(b, Thinking) and b.provider_data is not None and b.provider_data.provider == "deepseek"
    )


def _user(message: Message) -> Iterator[Json]:
    content = message.content
    if len(content) == 1 and isinstance(content[0], Text):  # most are
        if content[0].text:
            yield {"role": "user", "content": content[0].text}
        return
    pictures: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            text = f"Error: {block.text}" if block.is_error else block.text
            yield {"role": "tool", "tool_call_id": block.call_id, "content": text}
            pictures.extend(block.images)  # a tool message holds text only; the pictures follow as the user's
    rest = [*pictures, *(b for b in message.content if isinstance(b, (Text, Image)))]
    if any(isinstance(b, Image) for b in rest):
        yield {"role": "user", "content": [_part(b) for b in rest if isinstance(b, (Text, Image))]}
    elif text := "\n\n".join(b.text for b in rest if isinstance(b, Text) and b.text):
        yield {"role": "user", "content": text}


def _part(block: Text | Image) -> Json:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    url = f"data:{block.media_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}
