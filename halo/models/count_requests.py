"""Asking a provider how many tokens a request has: what is sent, and what comes back. Pure."""

from typing import Any

from halo.errors import HaloError, ProviderError
from halo.models.adapter import Request
from halo.models.failures import Call, malformed, translate
from halo.models.rendering import Render, Rendering
from halo.models.responses_wire import renderer, responses_body

# What `messages/count_tokens` takes of the body of a call; the rest does not change the count.
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")

# And `responses/input_tokens`.
_COUNTED_RESPONSE = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text")


def counted(body: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a call to Anthropic that `messages/count_tokens` takes."""
    return {name: body[name] for name in _COUNTED if name in body}


def responses_count_body(request: Request, render: Render | None = None) -> dict[str, Any]:
    """Build the body of OpenAI's `responses/input_tokens`.

    `render` renders the history; without it, thoughts that could go back are not counted.
    """
    items = Rendering(render or renderer("", "", "")).of(request.messages).messages
    body = responses_body(request, items, thinks=False)
    return {name: body[name] for name in _COUNTED_RESPONSE if name in body}


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
