"""Asking a provider how many tokens a request has: what is sent, and what comes back. Pure."""

from typing import Any

from halo.errors import HaloError, ProviderError
from halo.models.adapter import Request
from halo.models.anthropic_wire import messages_body
from halo.models.chat_wire import chat_messages
from halo.models.failures import Call, malformed, translate

# What `messages/count_tokens` takes of the body of a call; the rest does not change the count.
_COUNTED = ("model", "messages", "system", "tools")


def count_body(request: Request) -> dict[str, Any]:
    """Build the body of Anthropic's `messages/count_tokens`, without a response schema."""
    body = messages_body(request)
    return {name: body[name] for name in _COUNTED if name in body}


def responses_body(request: Request) -> dict[str, Any]:
    """Build the body of OpenAI's `responses/input_tokens`.

    Chat Completions has no endpoint that counts; Responses puts the same before the same models.
    """
    body: dict[str, Any] = {"model": request.binding.model, "input": _items(request)}
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
    if request.response_schema is not None:
        schema = {"type": "json_schema", "name": "reply", "schema": request.response_schema, "strict": False}
        body["text"] = {"format": schema}
    return body


def _items(request: Request) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in chat_messages("", request.messages):
        if message["role"] == "tool":
            call = message["tool_call_id"]
            items.append({"type": "function_call_output", "call_id": call, "output": message["content"]})
            continue
        if message["content"]:
            items.append({"role": message["role"], "content": _content(message["content"])})
        items.extend(
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        )
    return items


def _content(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [
        {"type": "input_text", "text": part["text"]}
        if part["type"] == "text"
        else {"type": "input_image", "detail": "auto", "image_url": part["image_url"]["url"]}
        for part in content
    ]


def read_count(answered: object, call: Call) -> int:
    """Return the count of an answer. Raises ProviderError when it holds none."""
    number = getattr(answered, "input_tokens", None)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise malformed(call, f"input_tokens is {number!r}")
    return number


def count_failed(error: Exception, call: Call) -> HaloError:
    """Turn what a client raised into the error that the user sees."""
    if getattr(error, "status_code", None) == 404:
        where = f"{call.provider} at {call.endpoint}"
        return ProviderError(
            f"{where} does not count tokens, or does not know model {call.model!r} (404)",
            hint="check `model.id` and `endpoint` in agent.yaml, or leave --ask away",
        )
    return translate(error, call)
