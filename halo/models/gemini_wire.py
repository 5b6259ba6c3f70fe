"""Requests of the Gemini API as JSON, in the spelling of its REST protocol. Pure.

What comes back is read by `gemini_stream`; what a cached content holds is left out by `gemini_cache`.
"""

import re
from collections.abc import Iterator
from typing import Any

from halo.models.adapter import Request
from halo.models.call_arguments import sent_arguments
from halo.records.artifacts import Binding, Reasoning
from halo.records.messages import Block, Image, Message, ProviderData, Text, Thinking, ToolCall, ToolResult
from halo.records.tools import ToolSpec

Json = dict[str, Any]

PROVIDER = "gemini"

# The field of `ProviderData` that holds a signature, in base64 as the API spells it.
SIGNATURE = "thought_signature"

# Models since this generation refuse a call of the history without a signature. One that the model has not
# made itself (another model, a few-shot) has none; this word stands for it, by the provider's guide to
# thought signatures as of October 2026.
_SIGNED_SINCE = 3
_UNSIGNED = "skip_thought_signature_validator"
_GENERATION = re.compile(r"(?:models/)?gemini-(\d+)")

_SAMPLING = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed"}


def gemini_body(request: Request, contents: list[Json]) -> Json:
    """Build the body of a call out of its rendered history.

    With `model`, which the client puts into the address. Where calls are forbidden and the reply must fit a
    schema, the tools are left away: models before Gemini 3 refuse both at once.
    """
    body: Json = {"model": request.binding.model, "contents": contents}
    if request.prefix.system.strip():
        body["systemInstruction"] = system_instruction(request.prefix.system)
    forbidden = request.tool_choice == "none"
    if request.prefix.tools and not (forbidden and request.response_schema is not None):
        body["tools"] = gemini_tools(request.prefix.tools)
        if forbidden:
            body["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
    body["generationConfig"] = _generation_config(request.binding, request.response_schema)
    return body


def system_instruction(text: str) -> Json:
    """Render a system text."""
    return {"parts": [{"text": text}]}


def gemini_tools(tools: tuple[ToolSpec, ...]) -> list[Json]:
    """Render tool specifications; their JSON Schemas go out as they are."""
    declared = [
        {"name": t.name, "description": t.description, "parametersJsonSchema": t.parameters} for t in tools
    ]
    return [{"functionDeclarations": declared}]


def _generation_config(binding: Binding, schema: Json | None) -> Json:
    config: Json = {"maxOutputTokens": binding.max_tokens}
    for name, spelt in _SAMPLING.items():
        value = getattr(binding, name)
        if value is not None:
            config[spelt] = value
    if schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = schema
    if binding.thinking is not None:
        config["thinkingConfig"] = _thinking(binding.thinking)
    return config


def _thinking(asked: Reasoning) -> Json:
    """Render how much to think; the words of `effort` are the provider's levels, in any case."""
    if asked.effort == "none":
        return {"thinkingBudget": 0}
    config: Json = {"includeThoughts": True}
    if asked.budget_tokens is not None:
        config["thinkingBudget"] = asked.budget_tokens
    elif asked.effort:
        config["thinkingLevel"] = asked.effort.upper()
    return config


class ContentRenderer:
    """Renders the messages of a conversation in their order, each with neighbours of the other role.

    A result must name its function, which only the call before it knows: the calls of the last assistant's
    message are kept.
    """

    def __init__(self, model: str) -> None:
        found = _GENERATION.match(model)
        self._signs = found is not None and int(found[1]) >= _SIGNED_SINCE
        self._names: dict[str, str] = {}

    def __call__(self, message: Message) -> Iterator[Json]:
        """Render one message; nothing for one without anything to send, such as thoughts alone."""
        if message.role == "user":
            parts = list(self._user(message))
        else:
            self._names = {call.id: call.name for call in message.calls}
            parts = self._assistant(message)
        if any(map(_says_something, parts)):
            yield {"role": "user" if message.role == "user" else "model", "parts": parts}

    def _user(self, message: Message) -> Iterator[Json]:
        """Render results first, all of a batch together, then their images, then the rest."""
        results = [b for b in message.content if isinstance(b, ToolResult)]
        for result in results:
            yield self._result(result)
        for result in results:
            if result.images:
                yield {"text": f"Images of the result of {self._name(result)}:"}
                yield from map(_image, result.images)
        for block in message.content:
            if isinstance(block, Text) and block.text.strip():
                yield {"text": block.text}
            elif isinstance(block, Image):
                yield _image(block)

    def _name(self, result: ToolResult) -> str:
        return self._names.get(result.call_id, "a tool")

    def _result(self, result: ToolResult) -> Json:
        name = self._names.get(result.call_id)
        if name is None:
            # The protocol refuses a result without its call; the words are still worth having.
            return {"text": f"Result of a tool:\n{result.text}"}
        response = {"error" if result.is_error else "output": result.text}
        return {"functionResponse": {"id": result.call_id, "name": name, "response": response}}

    def _assistant(self, message: Message) -> list[Json]:
        parts = [part for block in message.content if (part := _said(block)) is not None]
        if self._signs:
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None:
                first.setdefault("thoughtSignature", _UNSIGNED)
        return parts


def _said(block: Block) -> Json | None:
    """Render what the model said; a thought goes back only with its signature, which is all it is worth."""
    if isinstance(block, Text):
        signed = _signed(block.provider_data)
        return {"text": block.text, **signed} if block.text.strip() or signed else None
    if isinstance(block, ToolCall):
        call = {"id": block.id, "name": block.name, "args": sent_arguments(block.arguments)}
        return {"functionCall": call, **_signed(block.provider_data)}
    if isinstance(block, Thinking) and (signed := _signed(block.provider_data)):
        return {"text": block.text, "thought": True, **signed}
    return None


def _says_something(part: Json) -> bool:
    """Tell a thought, or a signature without words, from what a message can consist of."""
    return not part.get("thought") and ("text" not in part or bool(part["text"].strip()))


def _signed(data: ProviderData | None) -> Json:
    if data is None or data.provider != PROVIDER or SIGNATURE not in data.data:
        return {}
    return {"thoughtSignature": data.data[SIGNATURE]}


def _image(block: Image) -> Json:
    return {"inlineData": {"mimeType": block.media_type, "data": block.data}}
