"""`.halo/sessions/spent.jsonl`: what sessions had used that were deleted. The money is spent all the same.

A line is written, and synced, before its session goes. If that is broken off there are both: then the session
counts, and the line does not.
"""

import os
from collections.abc import Iterator

import msgspec

from halo.files.locks import hold
from halo.files.log import CheckedLog, read_log
from halo.files.regular import refuse_links
from halo.records.ledger import FORMAT, SessionSpending

NAME = "spent.jsonl"
_LOCK = "spent.lock"
_PATIENCE = 5.0  # seconds


def remember(sessions: str, spending: SessionSpending) -> None:
    """Keep what a session has used that is about to go. Raises OSError, `LogError` and `BusyError`."""
    if not spending.spent:
        return
    refuse_links(sessions)
    with (
        hold(os.path.join(sessions, _LOCK), what="what deleted sessions had used", timeout=_PATIENCE),
        CheckedLog.open(os.path.join(sessions, NAME), create=True) as log,
    ):
        log.append(msgspec.json.encode(spending))


def remembered(sessions: str) -> Iterator[SessionSpending | None]:
    """Yield what is kept, None for a line that cannot be used. Raises `LogError` for an unreadable file."""
    path = os.path.join(sessions, NAME)
    if not os.path.lexists(path):
        return
    for line in read_log(path):
        yield _decoded(line.record)


def _decoded(record: bytes | None) -> SessionSpending | None:
    try:
        found = msgspec.json.decode(record or b"", type=SessionSpending)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if found.format == FORMAT else None
