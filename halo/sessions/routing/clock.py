"""Times as sessions record them, and the hour at which a day of a zone begins."""

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def moment(text: str, now: dt.datetime) -> dt.datetime | None:
    """Read a recorded time. None for what is no time, has no zone, lies before 1970 or after `now`.

    A clock that was wrong must not end a session, nor keep one for ever.
    """
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        return None
    return found if _EPOCH <= found <= now else None


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def written(time: dt.datetime) -> str:
    """Write a time in UTC, to the millisecond."""
    return time.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def next_daily(after: dt.datetime, hour: int, zone: ZoneInfo) -> dt.datetime:
    """Return the first time after `after` at which it is `hour` o'clock in `zone`, in UTC.

    An hour that is skipped comes when the clock has been put forward; of one that comes twice the first
    counts.
    """
    day = after.astimezone(zone).date()
    times = (_at(day + dt.timedelta(days=days), hour, zone) for days in (-1, 0, 1, 2))
    return min(time for time in times if time > after)


def _at(day: dt.date, hour: int, zone: ZoneInfo) -> dt.datetime:
    # fold=0: before the change of the clock, whether the hour is skipped or doubled.
    return dt.datetime.combine(day, dt.time(hour), zone).astimezone(dt.UTC)


def find_zone(*names: str) -> tuple[ZoneInfo, tuple[str, ...]]:
    """Return the first zone that this machine knows, else UTC, and what is to be said of the others."""
    notes: list[str] = []
    for name in names:
        if not name:
            continue
        try:
            return ZoneInfo(name), tuple(notes)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            notes.append(f"this machine knows no time zone {name!a}")
    return ZoneInfo("UTC"), tuple(notes)
