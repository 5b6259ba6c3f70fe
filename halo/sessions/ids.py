"""Session ids and times: sortable, lower case, safe as file names."""

import datetime as dt
import re

_ID = re.compile(r"\d{8}t\d{6}-[0-9a-z]{6}\Z", re.ASCII)
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def timestamp(now_ns: int) -> str:
    """Write ns since the epoch as ISO 8601 in UTC with milliseconds."""
    moment = dt.datetime.fromtimestamp(now_ns // 1_000_000 / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_session_id(now_ns: int, randomness: bytes) -> str:
    """Make an id such as `20261002t143012-7k3f9q` from a clock and 6 random bytes."""
    moment = dt.datetime.fromtimestamp(now_ns // 1_000_000_000, dt.UTC)
    tail = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in randomness)
    return f"{moment:%Y%m%dt%H%M%S}-{tail}"


def is_session_id(text: str) -> bool:
    """Tell whether `text` is spelt as the id of a session."""
    return bool(_ID.match(text))


def month_of(session_id: str) -> str:
    """Return the folder of a session's month, such as `2026-10`."""
    return f"{session_id[:4]}-{session_id[4:6]}"
