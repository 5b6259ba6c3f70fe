"""Whether a message ends the session that it would reach: by a trigger, at an hour, after a pause."""

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from halo.sessions.routing.clock import moment, next_daily, written
from halo.sessions.routing.inbound import Inbound
from halo.workspace.settings.resets import ResetPolicy


class Trigger(NamedTuple):
    """What a message asks for: the word, as settings write it, and the rest of the text."""

    word: str
    rest: str


class Times(NamedTuple):
    """What is known of a session: ISO 8601 with a zone, as it was recorded. `active`: a turn runs in it."""

    started_at: str
    interacted_at: str
    active: bool = False


class Reset(msgspec.Struct, frozen=True):
    """A decision about resets.

    `due`: a new session begins now. `reason` is `daily`, `idle`, or the trigger. `deferred`: it would be due,
    but a turn runs. `expires_at`: when the session ends, or ended, by itself; empty for never. `inputs` is
    all that it was decided on, for the record.
    """

    due: bool = False
    reason: str = ""
    deferred: bool = False
    expires_at: str = ""
    inputs: dict[str, str] = {}


class Expiry(NamedTuple):
    """When a session ends by itself, and by which rule."""

    at: dt.datetime
    reason: str


def find_trigger(triggers: Sequence[str], inbound: Inbound) -> Trigger | None:
    """Return the trigger that a message begins with, alone or before white space; the longest one.

    None where the sender is not authorised, or a program wrote.
    """
    if inbound.event or not inbound.authorised:
        return None
    text = inbound.text.strip()
    for word in sorted(triggers, key=len, reverse=True):
        head, rest = text[: len(word)], text[len(word) :]
        if head.casefold() == word.casefold() and (not rest or rest[0].isspace()):
            return Trigger(word, rest.strip())
    return None


def expiry(policy: ResetPolicy, interacted: dt.datetime, zone: ZoneInfo) -> Expiry | None:
    """Return when a session ends in which a person wrote last at `interacted`; None for never."""
    if not policy.acts:
        return None
    ends: list[Expiry] = []
    if policy.mode == "daily":
        ends.append(Expiry(next_daily(interacted, policy.at_hour, zone), "daily"))
    if policy.idle_minutes:
        ends.append(Expiry(interacted.astimezone(dt.UTC) + dt.timedelta(minutes=policy.idle_minutes), "idle"))
    return min(ends)


def decide(
    policy: ResetPolicy,
    times: Times,
    now: dt.datetime,
    zone: ZoneInfo,
    *,
    trigger: Trigger | None = None,
    event: str = "",
) -> Reset:
    """Decide whether a message that arrives `now` ends the session.

    The last message of a person counts; where no time is known of one, the beginning of the session. What
    programs write (`event`) never ends a session, and neither does a rule while a turn runs.
    """
    interacted = moment(times.interacted_at, now) or moment(times.started_at, now)
    end = expiry(policy, interacted, zone) if interacted is not None else None
    expires_at = written(end.at) if end is not None else ""
    inputs = _inputs(policy, times, now, zone, interacted, expires_at, trigger, event)
    if trigger is not None:
        return Reset(due=True, reason=trigger.word, expires_at=expires_at, inputs=inputs)
    if end is None or event or not _over(end, now):
        return Reset(expires_at=expires_at, inputs=inputs)
    return Reset(not times.active, end.reason, times.active, expires_at, inputs)


def _over(end: Expiry, now: dt.datetime) -> bool:
    # At the very minute a pause is not yet longer than it may be; at the hour the new day has begun.
    return end.at < now if end.reason == "idle" else end.at <= now


def _inputs(
    policy: ResetPolicy,
    times: Times,
    now: dt.datetime,
    zone: ZoneInfo,
    interacted: dt.datetime | None,
    expires_at: str,
    trigger: Trigger | None,
    event: str,
) -> dict[str, str]:
    found = {
        "now": written(now),
        "started_at": times.started_at,
        "interacted_at": times.interacted_at,
        "counted_from": written(interacted) if interacted is not None else "",
        "policy": policy.source,
        "mode": policy.mode,
        "at_hour": str(policy.at_hour) if policy.mode == "daily" else "",
        "idle_minutes": str(policy.idle_minutes) if policy.mode != "never" and policy.idle_minutes else "",
        "time_zone": str(zone) if policy.mode == "daily" else "",
        "expires_at": expires_at,
        "trigger": trigger.word if trigger is not None else "",
        "event": event,
        "active": "yes" if times.active else "no",
    }
    return {name: value for name, value in found.items() if value}
