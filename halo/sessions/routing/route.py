"""Which session a message reaches, and why: one pure function of settings, the envelope and what there is."""

import datetime as dt
from collections.abc import Iterable
from typing import Literal, NamedTuple

from halo.records.channels import channel_name
from halo.records.origins import Origin
from halo.sessions.routing.addressing import Address, address
from halo.sessions.routing.carrying import carried_over
from halo.sessions.routing.clock import find_zone
from halo.sessions.routing.inbound import Inbound, origin_of, updated
from halo.sessions.routing.key import SessionKey
from halo.sessions.routing.known import Known, current_of, history_of
from halo.sessions.routing.policy import reset_policy
from halo.sessions.routing.reset import Reset, Times, Trigger, decide, find_trigger
from halo.sessions.routing.sending import SendDecision, decide_sending
from halo.workspace.settings.resets import ResetPolicy
from halo.workspace.settings.sessions import SessionSettings

# The session goes on; there is none and one begins; one ends and another begins.
Action = Literal["continue", "new", "rollover"]


class Route(NamedTuple):
    """Where a message goes.

    `session` is the one that takes it, empty for one that begins with it; `previous` the one of this key
    before that. `text` is what is left of the message behind a trigger. A session that begins takes over
    `settings`. `notes` say why, `warnings` what somebody should look at.
    """

    key: SessionKey
    action: Action
    session: str
    previous: str
    text: str
    trigger: Trigger | None
    policy: ResetPolicy
    reset: Reset
    send: SendDecision
    settings: dict[str, str]
    origin: Origin
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def route(
    settings: SessionSettings,
    agent: str,
    inbound: Inbound,
    rows: Iterable[Known],
    now: dt.datetime,
    *,
    zone: str = "",
) -> Route:
    """Decide where a message to `agent` goes. `rows` are the sessions that there are, `zone` is the user's.

    Raises `SessionKeyError` where the envelope lacks what its key is made of.
    """
    to = address(settings, agent, inbound)
    channel = channel_name(inbound.channel)
    history = history_of(rows, to.key)
    current = current_of(history)
    policy = reset_policy(settings, to.key, channel)
    found, unknown_zones = find_zone(policy.time_zone, zone)
    trigger = find_trigger(settings.reset_triggers, inbound)
    times = Times(current.started_at, current.interacted_at, current.active) if current else Times("", "")
    asked = trigger if current is not None else None  # there is nothing to end
    reset = decide(policy, times, now, found, trigger=asked, event=inbound.event)
    action: Action = "new" if current is None else "rollover" if reset.due else "continue"
    kept = current.settings if current is not None else {}
    return Route(
        key=to.key,
        action=action,
        session=current.id if current is not None and action == "continue" else "",
        previous=_previous(history, current, action),
        text=trigger.rest if trigger is not None else inbound.text,
        trigger=trigger,
        policy=policy,
        reset=reset,
        send=decide_sending(settings.send_policy, to.key, channel=channel, override=kept.get("send", "")),
        settings=carried_over(kept) if action == "rollover" else {},
        origin=updated(current.origin, inbound) if current and current.origin else origin_of(inbound),
        notes=to.notes,
        warnings=(
            *(unknown_zones if policy.mode == "daily" else ()),
            *_warnings(settings, to, inbound, current, trigger),
        ),
    )


def _previous(history: list[Known], current: Known | None, action: Action) -> str:
    if action == "continue" and current is not None:
        history = history[history.index(current) + 1 :]
    elif current is not None:
        return current.id
    return history[0].id if history else ""


def _warnings(
    settings: SessionSettings, to: Address, inbound: Inbound, current: Known | None, trigger: Trigger | None
) -> Iterable[str]:
    as_owner = Inbound(inbound.channel, text=inbound.text, authorised=True)
    asked = find_trigger(settings.reset_triggers, as_owner)
    if asked is not None and trigger is None and not inbound.event:
        yield f"{asked.word} is passed on as text: this sender may not reset the session"
    if trigger is not None and current is not None and current.active:
        yield f"a turn runs in {current.id}; it goes on there"
    other = _other_sender(to, inbound, current)
    if other:
        yield f"another sender writes in this session: {other}; general.session.dm_scope keeps them apart"


def _other_sender(to: Address, inbound: Inbound, current: Known | None) -> str:
    """Name the sender that a direct message would share its session with; empty where there is none."""
    origin = current.origin if current is not None else None
    if origin is None or to.scope is None or to.key.linked or not origin.sender:
        return ""
    if (origin.provider, origin.sender) == (channel_name(inbound.channel), inbound.peer):
        return ""
    return f"{origin.provider or 'unknown'}:{origin.sender}"
