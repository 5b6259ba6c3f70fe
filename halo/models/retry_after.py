"""When the other side asks to be called again. Pure."""

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


def seconds_to_wait(headers: Mapping[str, str], body: object, now: float) -> float | None:
    """Return the seconds that an answer asks to wait; None when it asks for none, or not in earnest.

    `retry-after-ms`, `retry-after` (seconds or an HTTP date; `now` is the time in seconds since the epoch),
    or Gemini's `retryDelay` in the error's details. Keys of `headers` are looked up as they are spelt here.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now) if value else _delay(body)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(text: str, now: float) -> float | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # `-0000` leaves the zone open; the header is always meant in UTC.
    return max(0.0, (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now)


def _delay(body: object) -> float | None:
    """Find `{"error": {"details": [{"retryDelay": "34s"}]}}`."""
    error: Any = body.get("error", body) if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        found = _DURATION.fullmatch(str(detail.get("retryDelay", ""))) if isinstance(detail, dict) else None
        if found:
            return _number(found[1])
    return None
