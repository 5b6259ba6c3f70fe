"""Adds up a ledger by agent, day, model, fingerprint, session or run. Pure."""

import datetime as dt
from collections.abc import Iterable
from typing import Literal, NamedTuple

from halo.records.ledger import QUARTER, SessionSpending, Spending
from halo.records.usage import Usage

By = Literal["agent", "day", "model", "fingerprint", "session", "run"]


class Wanted(NamedTuple):
    """What of a ledger is added up: days in `zone`, both included; None: any. `agent` empty: all."""

    zone: dt.tzinfo
    since: dt.date | None = None
    until: dt.date | None = None
    agent: str = ""


class Total(NamedTuple):
    """A line: `costs` by currency, money of different ones is never added up."""

    key: str
    title: str = ""
    calls: int = 0
    failed: int = 0
    usage: Usage = Usage()
    costs: tuple[tuple[str, float], ...] = ()
    unpriced: int = 0

    def plus(self, spent: Spending) -> "Total":
        """Add what was spent."""
        costs = dict(self.costs)
        if spent.cost or spent.calls + spent.failed > spent.unpriced:
            costs[spent.currency] = costs.get(spent.currency, 0.0) + spent.cost
        return self._replace(
            calls=self.calls + spent.calls,
            failed=self.failed + spent.failed,
            usage=self.usage + spent.usage,
            costs=tuple(sorted(costs.items())),
            unpriced=self.unpriced + spent.unpriced,
        )


def totals(ledger: Iterable[SessionSpending], by: By, wanted: Wanted) -> tuple[list[Total], Total]:
    """Return a line for each value of `by`, and one for all.

    Days in their order, else what has used most comes first. A session below another counts for its own agent
    and, by run, for the session at the top.
    """
    found: dict[str, Total] = {}
    everything = Total("total")
    for session in ledger:
        if wanted.agent and session.agent != wanted.agent:
            continue
        for spent in session.spent:
            day = dt.datetime.fromtimestamp(spent.quarter * QUARTER, wanted.zone).date()
            if (wanted.since and day < wanted.since) or (wanted.until and day > wanted.until):
                continue
            key = _key(by, session, spent, day)
            title = session.title if by == "session" or key == session.id else ""
            before = found.get(key) or Total(key)
            found[key] = before._replace(title=before.title or title).plus(spent)
            everything = everything.plus(spent)
    lines = sorted(found.values(), key=lambda line: line.key)
    if by != "day":
        lines.sort(key=_weight, reverse=True)
    return lines, everything


def _key(by: By, session: SessionSpending, spent: Spending, day: dt.date) -> str:
    match by:
        case "agent":
            return session.agent
        case "day":
            return day.isoformat()
        case "model":
            return spent.model
        case "fingerprint":
            return spent.fingerprint
        case "session":
            return session.id
        case "run":
            return session.root or session.id


def _weight(line: Total) -> tuple[float, int]:
    return (max((cost for _, cost in line.costs), default=0.0), line.usage.prompt + line.usage.output)
