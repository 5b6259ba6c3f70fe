"""What `session_status` says: the time and the figures of a session. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from halo.records.artifacts import Runtime
from halo.records.usage import Usage
from halo.runner.budgets import Ledger
from halo.sessions.history import Conversation

_UTC = frozenset({"UTC", "Etc/UTC"})


class Figures(msgspec.Struct, frozen=True):
    """What a session has used up to now, the running turn included.

    `turn` is the number of the running turn, `messages` counts those of the history, `calls` model calls.
    `expected` are the tokens that should have come from the provider's cache; `usage.read` did. `filled` are
    the tokens that the last call and its reply take in the window; None where no call is known. `cost` is the
    sum of the calls with a price, `unpriced` counts those without. `left` has what is left of each budget
    by its name in agent.yaml (`turn.steps`).
    """

    turn: int
    messages: int
    calls: int
    usage: Usage
    expected: int
    filled: int | None
    window: int
    cost: float
    currency: str
    unpriced: int
    left: Mapping[str, float] = {}


def figures_of(conversation: Conversation, runtime: Runtime, ledger: Ledger) -> Figures:
    """Return the figures of a conversation whose turn runs against `ledger`."""
    last = conversation.last_call
    used = last.reported.usage if last is not None else None
    return Figures(
        turn=conversation.turn,
        messages=len(conversation.messages),
        calls=conversation.calls,
        usage=conversation.usage,
        expected=conversation.expected,
        filled=used.prompt + used.output if used is not None else None,
        window=runtime.context_tokens,
        cost=conversation.cost,
        currency=conversation.currency,
        unpriced=conversation.unpriced,
        left=ledger.left(),
    )


def status_text(figures: Figures, now: datetime, zone: str) -> str:
    """Write the figures, a line each. `now` is in UTC; `zone` is the user's IANA zone, empty if unknown."""
    usage = figures.usage
    counts = _count(figures.messages, "message"), _count(figures.calls, "model call")
    sent = f"{usage.uncached:,} uncached, {usage.written:,} written to the cache, {usage.read:,} read from it"
    lines = [
        f"time: {_time(now, zone)}",
        f"session: turn {figures.turn}, {', '.join(counts)}",
        f"tokens sent: {usage.prompt:,} ({sent})",
        f"tokens produced: {usage.output:,}",
        f"cache: {_cache(usage.read, figures.expected)}",
        f"window: {_window(figures.filled, figures.window)}",
        f"cost: {_cost(figures)}",
        f"left: {_left(figures)}",
    ]
    return "\n".join(lines)


def _time(now: datetime, zone: str) -> str:
    utc = f"{now.astimezone(UTC):%A, %Y-%m-%d %H:%M:%S} UTC"
    local = _zone(zone)
    if local is None:
        return f"{utc}; the user's time zone is not known"
    there = now.astimezone(local)
    return utc if zone in _UTC else f"{there:%A, %Y-%m-%d %H:%M:%S} {zone}; {utc}"


def _zone(name: str) -> ZoneInfo | None:
    """Return a zone that this machine knows; None for any other."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return None


def _cache(read: int, expected: int) -> str:
    if not expected:
        return f"{read:,} tokens came from it; none were expected to"
    return f"{read:,} tokens came from it; {expected:,} were expected to"


def _window(filled: int | None, window: int) -> str:
    if filled is None:
        return f"{window:,} tokens; how many are filled is known after the next call"
    return f"{filled:,} of {window:,} tokens are filled ({filled / window:.0%})"


def _cost(figures: Figures) -> str:
    if not figures.currency:
        return "not known, for the model has no price" if figures.calls else "nothing yet"
    cost = f"{figures.cost:.4f} {figures.currency}"
    if figures.unpriced:
        return f"{cost}, and {_count(figures.unpriced, 'call')} without a known price"
    return cost


def _left(figures: Figures) -> str:
    if not figures.left:
        return "no budget is set"
    left = figures.left.items()
    return ", ".join(f"{name} {_amount(name, value, figures.currency)}" for name, value in left)


def _amount(name: str, value: float, currency: str) -> str:
    if name.endswith(".cost"):
        return f"{value:.4f} {currency}".rstrip()
    return f"{value:,.0f}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
