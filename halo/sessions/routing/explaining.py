"""Says in lines of text where a message goes, and why."""

from collections.abc import Iterator

from halo.files.visible import visible
from halo.sessions.routing.route import Route
from halo.workspace.settings.resets import ResetPolicy

_WIDTH = 9  # of the words at the left


def explain(route: Route) -> list[str]:
    """Return the explanation, a line each; nothing in it acts on a terminal."""
    return [visible(f"{name:{_WIDTH}}{text}".rstrip()) for name, text in _lines(route)]


def _lines(route: Route) -> Iterator[tuple[str, str]]:
    yield "key", f"{route.key.text}  ({route.key.kind})"
    for note in route.notes:
        yield "", note
    yield "session", _session(route)
    if route.trigger is not None:
        rest = f"the rest is passed on: {route.text!a}" if route.text else "nothing is left of the message"
        yield "", f"{route.trigger.word} is a trigger; {rest}"
    if route.settings:
        yield (
            "",
            "takes over " + ", ".join(f"{name} {value}" for name, value in sorted(route.settings.items())),
        )
    yield "reset", _reset(route)
    yield "send", f"{'allowed' if route.send.allowed else 'denied'}: {route.send.reason}"
    for warning in route.warnings:
        yield "warning", warning


def _session(route: Route) -> str:
    if route.action == "continue":
        return f"{route.session} goes on"
    if route.action == "rollover":
        return f"a new one; {route.previous} ends ({route.reset.reason})"
    return f"a new one; {route.previous} has ended" if route.previous else "a new one; this key has none yet"


def _reset(route: Route) -> str:
    policy, reset = route.policy, route.reset
    said = f"{_policy(policy, reset.inputs.get('time_zone', ''))} (general.session.{policy.source})"
    if reset.deferred:
        return f"{said}; put off, because a turn runs: {reset.reason} since {reset.expires_at}"
    if reset.inputs.get("event") and reset.expires_at and reset.expires_at <= reset.inputs["now"]:
        return f"{said}; over since {reset.expires_at}, but what a program sends ends no session"
    if reset.expires_at:
        return f"{said}; {'was over' if reset.due else 'over'} at {reset.expires_at} without a message before"
    return said


def _policy(policy: ResetPolicy, zone: str) -> str:
    if not policy.acts:
        return "never by itself"
    pause = f"after {policy.idle_minutes:,} minutes without a person's message" if policy.idle_minutes else ""
    if policy.mode == "idle":
        return pause
    hour = f"daily at {policy.at_hour:02}:00 {zone}"
    return f"{hour} or {pause}" if pause else hour
