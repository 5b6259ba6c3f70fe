"""What an error's body says: its reason for people, and its words for machines. Pure."""

import json
from typing import Any

from halo.models.characters import whole_text


def message_of(body: object) -> str:
    """Find the reason in an error body: `{"error": {"message": …}}`, `{"message": …}`, or text."""
    return whole_text(_message_of(_decoded(body)))


def _message_of(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, dict):
        return ""
    inner: Any = body.get("error", body)
    if isinstance(inner, str):
        return inner
    if isinstance(inner, dict) and isinstance(inner.get("message"), str):
        return str(inner["message"])
    return json.dumps(body, ensure_ascii=False)


def _decoded(body: object) -> object:
    """Return an error body as a dict where it is one, else as text where it is text."""
    if not isinstance(body, (str, bytes)):
        # OpenAI's compatible layer at Gemini answers a list with one error.
        return body[0] if isinstance(body, list) and body else body
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = _decoded(decoded) if isinstance(decoded, list) else decoded
    return found if isinstance(found, dict) else text


def codes_of(body: object) -> frozenset[str]:
    """Return the machine's words of an error body: its code, type, status, and the reasons in its details."""
    body = _decoded(body)
    error: Any = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return frozenset()
    details = error.get("details")
    found = [error.get("code"), error.get("type"), error.get("status")]
    found += [d.get("reason") for d in details if isinstance(d, dict)] if isinstance(details, list) else []
    return frozenset(code for code in found if isinstance(code, str))
