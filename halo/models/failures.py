"""What goes wrong between Halo and a provider, told to the user in one sentence.

Both clients come from one generator, so their exceptions are alike; they are told apart by what they carry,
and this module imports neither. A key never stands in a message: texts of the other side are searched for
it, and the text of a 401 is not shown at all, because providers repeat parts of the key in it.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from halo.errors import Fault, HaloError, ProviderError
from halo.models.error_bodies import codes_of, message_of
from halo.models.overflow_words import is_overflow
from halo.models.retry_after import seconds_to_wait

_LONGEST = 400  # characters of the other side's text that are shown

# Words of the machine for an account that pays nothing more: no wait helps, even where the status is 429.
_UNPAID = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_error", "account_deactivated"}
)

# Anthropic's words for the same, in an answer that has no word for machines. With another status they may be
# about anything.
_NO_CREDIT = "credit balance is too low"

# The status that the type or code of an error in the middle of a stream has elsewhere.
STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "vector_store_timeout": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "server_is_overloaded": 529,
    "slow_down": 529,
}

# What passes by itself, beside everything from 500 on: a slow request, a lock that another one holds.
_PASSING = frozenset({408, 409, 425})

# What the clients raise when an event is not what they take for granted.
_STUMBLES = (ValueError, TypeError, AttributeError, LookupError, RecursionError, msgspec.MsgspecError)


class Call(msgspec.Struct, frozen=True):
    """Where a call went; `key` only so that it can be kept out of messages."""

    provider: str
    endpoint: str
    model: str
    key: str = ""

    def redact(self, text: str) -> str:
        """Return `text` without the key, in one line and cut to a readable length."""
        # As it is, and as an error message may quote it; in one go, for a short key may stand in `[key]`.
        spellings = {self.key, repr(self.key)[1:-1], self.key.strip()} - {""}
        if spellings:
            pattern = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
            text = re.sub(pattern, "[key]", text)
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def translate(error: Exception, call: Call) -> HaloError:
    """Turn what a client, httpx2 or a JSON parser raised into the error that the user sees."""
    import httpx2

    if (own := _own_cause(error)) is not None:
        return own
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        body = getattr(error, "body", None)
        headers = getattr(getattr(error, "response", None), "headers", {})
        return from_status(status, body if body is not None else str(error), call, headers)
    if isinstance(status, int) and 300 <= status < 400:
        return _redirected(call)
    cause = _transport_cause(error)
    if isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return _unreachable(cause, call)
    if isinstance(cause, httpx2.TimeoutException):
        return ProviderError(
            f"{call.provider} at {call.endpoint} did not answer in time",
            hint="try again; a server on this machine may still be loading its model",
            kind="transient",
        )
    if isinstance(cause, httpx2.HTTPError):
        return broke_off(call, str(cause))
    if isinstance(error, _STUMBLES) or "Validation" in type(error).__name__:
        return malformed(call, str(error))
    body = getattr(error, "body", None)
    return in_stream(body if body is not None else str(error), call)


def in_stream(body: object, call: Call) -> HaloError:
    """Build the error for an error event in the middle of an answer that began well.

    One of a kind that is not known may pass.
    """
    error: Any = body.get("error", body) if isinstance(body, dict) else {}
    number = error.get("code") if isinstance(error, dict) else None
    known = [STATUS_OF[code] for code in codes_of(body) if code in STATUS_OF]
    if not known and isinstance(number, int) and 400 <= number < 600:
        known = [number]
    if known:
        return from_status(known[0], body, call)
    text = call.redact(message_of(body)) or "no reason given"
    if is_overflow(0, codes_of(body), text):
        return from_status(400, body, call)
    return ProviderError(
        f"{call.provider} at {call.endpoint} failed: {text}", hint="try again", kind="transient"
    )


def from_status(
    status: int, body: object, call: Call, headers: Mapping[str, str] | None = None, now: float | None = None
) -> HaloError:
    """Build the error for an HTTP status; `body` is the decoded or raw body of the answer.

    `headers` may say when to come again. `now`: seconds since the epoch, by default the time.
    """
    if 300 <= status < 400:
        return _redirected(call)
    said = message_of(body)
    text = call.redact(said) or "no reason given"
    where = f"{call.provider} at {call.endpoint}"
    codes = codes_of(body)
    if status == 401 or "API_KEY_INVALID" in codes:
        return ProviderError(
            f"{where} does not accept the key ({status})",
            hint=f"check `{call.provider}.secrets.api_key` in the settings, or the environment variable "
            f"{call.provider.upper()}_API_KEY",
            kind="auth",
        )
    if is_overflow(status, codes, said):
        return ProviderError(
            f"the request is too long for {call.model!r}: {text}",
            hint="shorten the prompt or the session, or choose a model with a larger context",
            kind="overflow",
        )
    if status == 402 or not codes.isdisjoint(_UNPAID) or (status == 400 and _NO_CREDIT in said.lower()):
        return ProviderError(
            f"{where} wants to be paid first ({status}): {text}",
            hint="check the balance and the limits of the account that the key belongs to",
            kind="auth",
        )
    if status == 403:
        return ProviderError(
            f"{where} forbids this (403): {text}", hint="check what the key may do", kind="auth"
        )
    if status == 404:
        return ProviderError(
            f"{where} does not know model {call.model!r} (404): {text}",
            hint="check `model.id` and `endpoint` in agent.yaml; an OpenAI endpoint includes /v1, "
            "Anthropic's does not",
        )
    if status != 429 and status < 500 and status not in _PASSING:
        return ProviderError(f"{where} rejects the request ({status}): {text}")
    after = seconds_to_wait(headers or {}, body, time.time() if now is None else now)
    return _passing(status, f"({status}): {text}", where, after)


def _passing(status: int, why: str, where: str, after: float | None) -> ProviderError:
    """Build the error for what may go through the next time."""
    kind: Fault = "rate_limit" if status == 429 else "transient"
    if status == 429:
        what, hint = f"{where} asks to slow down", "wait a moment and try again"
    else:
        what, hint = f"{where} failed", "try again later"
    return ProviderError(f"{what} {why}", hint=hint, kind=kind, retry_after=after)


def broke_off(call: Call, reason: str = "") -> ProviderError:
    """Build the error for a stream that ended before its end."""
    why = f" ({call.redact(reason)})" if reason else ""
    return ProviderError(
        f"the answer of {call.provider} at {call.endpoint} broke off{why}",
        hint="send the message again",
        kind="transient",
    )


def malformed(call: Call, reason: str) -> ProviderError:
    """Build the error for an event that does not follow the protocol."""
    return ProviderError(
        f"{call.provider} at {call.endpoint} sent an event that cannot be read: {call.redact(reason)}",
        hint="check that `endpoint` speaks the protocol of this provider",
        kind="protocol",
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
        kind="transient",
    )


def _own_cause(error: BaseException) -> HaloError | None:
    """Return the error that Halo itself raised below a client, which wraps whatever comes through."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, HaloError):
            return seen
        seen = seen.__cause__
    return None


def _transport_cause(error: BaseException) -> BaseException:
    """Return the httpx2 error inside a client's error, or the error itself."""
    import httpx2

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, httpx2.HTTPError):
            return seen
        seen = seen.__cause__
    return error
