"""What goes wrong between Halo and a provider, told to the user in one sentence.

Both clients come from one generator, so their exceptions are alike; they are told apart by what they carry,
and this module imports neither. A key never stands in a message: texts of the other side are searched for
it, and the text of a 401 is not shown at all, because providers repeat parts of the key in it.
"""

import json
from typing import Any

import msgspec

from halo.errors import HaloError, ProviderError

_LONGEST = 400  # characters of the other side's text that are shown


# What the clients raise when an event is not what they take for granted.
_STUMBLES = (ValueError, TypeError, AttributeError, LookupError, msgspec.MsgspecError)


class Call(msgspec.Struct, frozen=True):
    """Where a call went; `key` only so that it can be kept out of messages."""

    provider: str
    endpoint: str
    model: str
    key: str = ""

    def redact(self, text: str) -> str:
        """Return `text` without the key, in one line and cut to a readable length."""
        # As it is, and as an error message may quote it.
        for spelling in (self.key, repr(self.key)[1:-1], self.key.strip()):
            if spelling:
                text = text.replace(spelling, "[key]")
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def translate(error: Exception, call: Call) -> HaloError:
    """Turn what a client, httpx2 or a JSON parser raised into the error that the user sees."""
    import httpx2

    if isinstance(error, HaloError):
        return error
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        body = getattr(error, "body", None)
        return from_status(status, body if body is not None else str(error), call)
    if isinstance(status, int) and 300 <= status < 400:
        return _redirected(call)
    cause = _transport_cause(error)
    if isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return _unreachable(cause, call)
    if isinstance(cause, httpx2.TimeoutException):
        return ProviderError(
            f"{call.provider} at {call.endpoint} did not answer in time",
            hint="try again; a server on this machine may still be loading its model",
        )
    if isinstance(cause, httpx2.HTTPError):
        return broke_off(call, str(cause))
    if isinstance(error, _STUMBLES) or "Validation" in type(error).__name__:
        return malformed(call, str(error))
    body = getattr(error, "body", None)
    text = call.redact(_message(body) or str(error))
    return ProviderError(f"{call.provider} at {call.endpoint} failed: {text}", hint="try again")


def from_status(status: int, body: object, call: Call) -> HaloError:
    """Build the error for an HTTP status; `body` is the decoded or raw body of the answer."""
    if 300 <= status < 400:
        return _redirected(call)
    said = _message(body)
    text = call.redact(said) or "no reason given"
    where = f"{call.provider} at {call.endpoint}"
    if status == 401:
        return ProviderError(
            f"{where} does not accept the key (401)",
            hint=f"check `{call.provider}.secrets.api_key` in the settings, or the environment variable",
        )
    if _is_overflow(body, said):
        return ProviderError(
            f"the request is too long for {call.model!r}: {text}",
            hint="shorten the prompt or the session, or choose a model with a larger context",
        )
    if status == 403:
        return ProviderError(f"{where} forbids this (403): {text}", hint="check what the key may do")
    if status == 404:
        return ProviderError(
            f"{where} does not know model {call.model!r} (404): {text}",
            hint="check `model.id` and `endpoint` in agent.yaml; an OpenAI endpoint includes /v1, "
            "Anthropic's does not",
        )
    if status == 429:
        return ProviderError(f"{where} asks to slow down (429): {text}", hint="wait a moment and try again")
    if status >= 500:
        return ProviderError(f"{where} failed ({status}): {text}", hint="try again later")
    return ProviderError(f"{where} rejects the request ({status}): {text}")


def broke_off(call: Call, reason: str = "") -> ProviderError:
    """Build the error for a stream that ended before its end."""
    why = f" ({call.redact(reason)})" if reason else ""
    return ProviderError(
        f"the answer of {call.provider} at {call.endpoint} broke off{why}", hint="send the message again"
    )


def malformed(call: Call, reason: str) -> ProviderError:
    """Build the error for an event that does not follow the protocol."""
    return ProviderError(
        f"{call.provider} at {call.endpoint} sent an event that cannot be read: {call.redact(reason)}",
        hint="check that `endpoint` speaks the protocol of this provider",
    )


def _redirected(call: Call) -> ProviderError:
    # Not followed: the prompt, and on the same host the key, would go where nobody looked.
    return ProviderError(
        f"{call.provider} at {call.endpoint} redirects to another address, which is not followed",
        hint="put the final address into `endpoint`",
    )


def _unreachable(cause: Exception, call: Call) -> ProviderError:
    reason = call.redact(str(cause)) or type(cause).__name__
    return ProviderError(
        f"cannot reach {call.provider} at {call.endpoint}: {reason}",
        hint="check `endpoint` in agent.yaml and the network, or start the server that should listen there",
    )


def _transport_cause(error: BaseException) -> BaseException:
    """Return the httpx2 error inside a client's error, or the error itself."""
    import httpx2

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, httpx2.HTTPError):
            return seen
        seen = seen.__cause__
    return error


def _message(body: object) -> str:
    """Find the reason in an error body: `{"error": {"message": …}}`, `{"message": …}`, or text."""
    if isinstance(body, (str, bytes)):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        try:
            decoded = json.loads(text)
        except ValueError:
            return text
        return _message(decoded) if isinstance(decoded, dict) else text
    if not isinstance(body, dict):
        return ""
    inner: Any = body.get("error", body)
    if isinstance(inner, str):
        return inner
    if isinstance(inner, dict) and isinstance(inner.get("message"), str):
        return str(inner["message"])
    return json.dumps(body, ensure_ascii=False)


def _is_overflow(body: object, said: str) -> bool:
    """Say whether the request was longer than the context; every provider says it in its own words."""
    words = said.lower()
    code = json.dumps(body) if isinstance(body, dict) else str(body)
    return (
        "context_length_exceeded" in code
        or "exceed_context_size" in code
        or "prompt is too long" in words
        or "maximum context length" in words
        or "exceeds the available context size" in words
    )
