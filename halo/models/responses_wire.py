"""Requests of OpenAI's Responses as JSON. Pure. What comes back is read by `responses_stream`.

Stateless: nothing is stored at the provider, the whole history goes out each time, messages and calls without
the ids by which a server would look for what it never stored. Of thoughts the protocol demands them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from halo.models.adapter import Request
from halo.models.rendering import Render
from halo.models.strict_schemas import is_strict
from halo.records.messages import Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult
from halo.records.tools import ToolSpec

Json = dict[str, Any]

_SAMPLING = ("temperature", "top_p")

# At the end of a model's name: `gpt-5-mini-2025-08-07`.
_DATE = re.compile(r"-\d{4}-\d\d-\d\d\Z")


def responses_body(request: Request, items: Sequence[Json], *, thinks: bool) -> Json:
    """Build the body of a streamed call out of its rendered history.

    `thinks`: the model is known to. Others refuse to be asked for their encrypted thoughts.
    """
    binding = request.binding
    body: Json = {
        "model": binding.model,
        "input": list(items),
        "stream": True,
        "store": False,
        "max_output_tokens": binding.max_tokens,
    }
    if request.prefix.system:
        body["instructions"] = request.prefix.system
    for name in _SAMPLING:
        value = getattr(binding, name)
        if value is not None:
            body[name] = value
    asked = binding.thinking
    if asked is not None:
        effort = {"effort": asked.effort} if asked.effort else {}
        body["reasoning"] = {**effort, **({} if asked.effort == "none" else {"summary": "auto"})}
    if thinks or asked is not None:
        body["include"] = ["reasoning.encrypted_content"]
    if request.prefix.tools:
        body["tools"] = response_tools(request.prefix.tools)
        if request.tool_choice == "none":
            body["tool_choice"] = "none"
    if request.response_schema is not None:
        body["text"] = {"format": response_format(request.response_schema)}
    return body


def response_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    """Render tool specifications. Not strict: strict mode has no optional arguments, and Halo's tools do."""
    return [
        {
            "type": "function",
            "name": t.name,
            "description": t.description,
            "parameters": t.parameters,
            "strict": False,
        }
        for t in tools
    ]


def response_format(schema: Json) -> Json:
    """Render a schema of the whole reply."""
    return {"type": "json_schema", "name": "reply", "schema": schema, "strict": is_strict(schema)}


def renderer(provider: str, endpoint: str, model: str) -> Render:
    """Return what renders one message whose neighbours have the other role.

    Thoughts go back to where they came from: this provider, endpoint and model.
    """
    return partial(_render, origin=origin(provider, endpoint, model))


def origin(provider: str, endpoint: str, model: str) -> ProviderData:
    """Return the mark of thoughts that `model` had there; dated names of a model are the same model."""
    return ProviderData(provider, {"endpoint": endpoint, "model": _DATE.sub("", model)})


def _render(message: Message, *, origin: ProviderData) -> list[Json]:
    return _user(message) if message.role == "user" else _assistant(message, origin)


def _user(message: Message) -> list[Json]:
    items = [_result(b) for b in message.content if isinstance(b, ToolResult)]
    rest = [b for b in message.content if isinstance(b, (Text, Image))]
    if any(isinstance(b, Image) for b in rest):
        items.append({"role": "user", "content": [_part(b) for b in rest]})
    elif text := "\n\n".join(b.text for b in rest if isinstance(b, Text) and b.text):
        items.append({"role": "user", "content": text})
    return items


def _result(block: ToolResult) -> Json:
    text = f"Error: {block.text}" if block.is_error else block.text
    output: str | list[Json] = text
    if block.images:
        output = [_part(Text(text)), *(_part(i) for i in block.images)]
    return {"type": "function_call_output", "call_id": block.call_id, "output": output}


def _part(block: Text | Image) -> Json:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    url = f"data:{block.media_type};base64,{block.data}"
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _assistant(message: Message, origin: ProviderData) -> list[Json]:
    items = list(_said(message, origin))
    # A thought stands before what it led to. One that led to nothing (the reply was cut) is refused.
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _said(message: Message, origin: ProviderData) -> Iterator[Json]:
    for block in message.content:
        if isinstance(block, Text) and block.text:
            yield {"type": "message", "role": "assistant", **_phase(block, origin), "content": block.text}
        elif isinstance(block, ToolCall):
            name, arguments = block.name, block.arguments
            yield {"type": "function_call", "call_id": block.id, "name": name, "arguments": arguments}
        elif isinstance(block, Thinking) and (item := _thought(block, origin)) is not None:
            yield {"type": "reasoning", **item}


def _phase(block: Text, origin: ProviderData) -> Json:
    """Return the label of a message that newer models want back."""
    data = block.provider_data
    if data is None or data.provider != origin.provider or "phase" not in data.data:
        return {}
    return {"phase": data.data["phase"]}


def _thought(block: Thinking, origin: ProviderData) -> Json | None:
    data = block.provider_data
    if data is None or data.provider != origin.provider:
        return None
    is_own = all(data.data.get(name) == value for name, value in origin.data.items())
    item: Json | None = data.data.get("item") if is_own else None
    return item
