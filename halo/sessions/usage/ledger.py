"""The ledger of a workspace: what each session has used. Reading it costs what has changed since then.

`<yyyy-mm>/usage.jsonl` keeps it, a line a session; it is derived, and believed while the log has the size
that the line says.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from halo.errors import HaloError, LogError
from halo.files.log import encode_line
from halo.records.ledger import SessionSpending
from halo.sessions.find import months
from halo.sessions.folder import SessionFolder
from halo.sessions.index.lookup import sizes
from halo.sessions.index.month_file import MonthFile
from halo.sessions.usage.gone import NAME as GONE
from halo.sessions.usage.gone import remembered
from halo.sessions.usage.reading import spending_of

NAME = "usage.jsonl"


class Ledger(NamedTuple):
    """What sessions have used, those that are gone included; `problems` say what is missing in it."""

    sessions: tuple[SessionSpending, ...]
    problems: tuple[str, ...]


def read_ledger(sessions: str) -> Ledger:
    """Read what all sessions of a workspace have used. What cannot be read is told."""
    found: dict[str, SessionSpending] = {}
    problems: list[str] = []
    for month in months(sessions):
        _read_month(sessions, month, found, problems)
    problems += [
        f"session {each.id}: {each.problems} lines of its log cannot be read"
        for each in found.values()
        if each.problems
    ]
    there, lost = set(found), 0
    try:
        for each in remembered(sessions):
            if each is None:
                lost += 1
            elif each.id not in there:
                found[each.id] = each
    except LogError as error:
        problems.append(f"{GONE}: {error.on_one_line}")
    if lost:
        problems.append(f"{GONE}: {lost} lines cannot be read: what deleted sessions had used is missing")
    return Ledger(tuple(found.values()), tuple(problems))


def _read_month(sessions: str, month: str, found: dict[str, SessionSpending], problems: list[str]) -> None:
    file = MonthFile(sessions, month, NAME)
    known = _known(file)
    fresh: list[SessionSpending] = []
    for session_id, size in sizes(sessions, month):
        row = known.get(session_id)
        if row is None or row.log_bytes != size:
            try:
                row = spending_of(SessionFolder(sessions, session_id))
            except (LogError, OSError) as error:
                problems.append(f"session {session_id}: {error}")
                continue
            fresh.append(row)
        found[session_id] = row
    if fresh:
        # Whoever asks next finds them there. A folder that may not be written to is read all the same.
        with suppress(HaloError, OSError):
            file.add(_lines(fresh))


def _known(file: MonthFile) -> dict[str, SessionSpending]:
    try:
        return file.last(SessionSpending)
    except OSError:
        return {}  # something else stands there: the logs decide


def _lines(rows: Iterable[SessionSpending]) -> bytes:
    return b"".join(encode_line(msgspec.json.encode(row)) for row in rows)
