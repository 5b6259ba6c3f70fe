"""Which sessions have ended by their rule although no message has arrived since."""

import datetime as dt
from collections.abc import Iterable
from typing import NamedTuple

from halo.errors import SessionKeyError
from halo.sessions.routing.clock import find_zone
from halo.sessions.routing.grammar import parse_key
from halo.sessions.routing.known import Known
from halo.sessions.routing.policy import reset_policy
from halo.sessions.routing.reset import Reset, Times, decide
from halo.workspace.settings.sessions import SessionSettings

# Those that people write to by a channel. Of the rest each has its own end.
_SWEPT = frozenset({"main", "direct", "group", "channel"})


class Overdue(NamedTuple):
    """A session that is over, and the decision."""

    session: Known
    reset: Reset


def overdue(
    settings: SessionSettings, rows: Iterable[Known], now: dt.datetime, *, zone: str = ""
) -> list[Overdue]:
    """Return the sessions that the next message would end: rules are otherwise asked when one arrives."""
    found: list[Overdue] = []
    for row in rows:
        try:
            key = parse_key(row.key)
        except SessionKeyError:
            continue
        if key.base not in _SWEPT or not row.open:
            continue
        channel = key.channel or (row.origin.provider if row.origin is not None else "")
        policy = reset_policy(settings, key, channel)
        times = Times(row.started_at, row.interacted_at, row.active)
        reset = decide(policy, times, now, find_zone(policy.time_zone, zone)[0])
        if reset.due:
            found.append(Overdue(row, reset))
    return found
