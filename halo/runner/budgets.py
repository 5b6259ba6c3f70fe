"""What a turn and a run may use: ledgers that are added to, and asked before each step."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from halo.errors import StartError
from halo.models.prices import Cost
from halo.records.budgets import Budget, Budgets
from halo.records.events import EndReason
from halo.records.usage import Usage

# What a call costs; None where the model has no price.
Price = Callable[[Usage], Cost | None]


def free(_: Usage) -> None:
    """Say that nothing is known of what a call costs."""


class Spent(msgspec.Struct, frozen=True):
    """What has been used: model calls, tokens (sent and produced), money, seconds of wall time."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class Reached(NamedTuple):
    """A bound that was reached: the reason for which a turn ends, and the bound in words."""

    reason: EndReason
    bound: str


class Ledger:
    """What one turn, or one run, has used against its budget. What is added counts in `parent`, too.

    A run that starts others hands its ledger on as their parent, so that all of them share one budget.
    `clock` is in seconds; time counts from the moment when the ledger is made.
    """

    def __init__(
        self,
        name: str,
        budget: Budget,
        clock: Callable[[], float],
        *,
        spent: Spent | None = None,
        parent: "Ledger | None" = None,
    ) -> None:
        """`name` is that of the budget in agent.yaml (`turn`, `run`); `spent` was used before."""
        self._name, self._budget, self._clock, self._parent = name, budget, clock, parent
        spent = spent or Spent()
        self._before = spent
        self._began = clock()
        self._steps, self._tokens, self._cost = spent.steps, spent.tokens, spent.cost

    @property
    def spent(self) -> Spent:
        """What has been used up to now."""
        return Spent(self._steps, self._tokens, self._cost, self._seconds())

    def _seconds(self) -> float:
        return self._before.seconds + self._clock() - self._began

    def add(self, usage: Usage, cost: Cost | None) -> None:
        """Add a model call."""
        self._steps += 1
        self._use(usage, cost)
        if self._parent is not None:
            self._parent.add(usage, cost)

    def lose(self, usage: Usage, cost: Cost | None) -> None:
        """Add what an attempt has used that failed: it is made again, or it was no step."""
        self._use(usage, cost)
        if self._parent is not None:
            self._parent.lose(usage, cost)

    def catch_up(self, spent: Spent) -> None:
        """Count what others have used of this budget, too: `spent` is all that is known of it but time."""
        self._steps = max(self._steps, spent.steps)
        self._tokens = max(self._tokens, spent.tokens)
        self._cost = max(self._cost, spent.cost)

    def _use(self, usage: Usage, cost: Cost | None) -> None:
        self._tokens += usage.prompt + usage.output
        self._cost += cost.amount if cost is not None else 0.0

    def reached(self) -> Reached | None:
        """Return the first bound that is reached, of this ledger or of those above."""
        budget = self._budget
        bounds: tuple[tuple[str, EndReason, float, float | None], ...] = (
            ("steps", "steps", self._steps, budget.steps),
            ("tokens", "tokens", self._tokens, budget.tokens),
            ("cost", "cost", self._cost, budget.cost),
            ("seconds", "time", self._seconds(), budget.seconds),
        )
        for field, reason, used, most in bounds:
            if most is not None and used >= most:
                return Reached(reason, f"budgets.{self._name}.{field}: {most:,}")
        return self._parent.reached() if self._parent is not None else None

    def seconds_left(self) -> float | None:
        """Return how long a step may still take; None without a bound in time."""
        own = None if self._budget.seconds is None else max(0.0, self._budget.seconds - self._seconds())
        above = self._parent.seconds_left() if self._parent is not None else None
        return own if above is None else above if own is None else min(own, above)

    def left(self) -> dict[str, float]:
        """Return what is left of each bound, by its name in agent.yaml (`turn.tokens`)."""
        used = self.spent
        left = {
            f"{self._name}.{field}": max(0, most - getattr(used, field))
            for field in Budget.__struct_fields__
            if (most := getattr(self._budget, field)) is not None
        }
        return {**left, **(self._parent.left() if self._parent is not None else {})}

    def check_priced(self, price: Price, model: str) -> None:
        """Raise StartError for a bound in money that could not be counted."""
        if self._budget.cost is not None and price(Usage()) is None:
            raise StartError(
                f"budgets.{self._name}.cost cannot be kept: nothing is known of the price of {model}",
                hint="give its prices in .halo/models/<provider>.yaml, or bound tokens instead",
            )
        if self._parent is not None:
            self._parent.check_priced(price, model)


def turn_ledger(
    budgets: Budgets, clock: Callable[[], float] = time.monotonic, run: Ledger | None = None
) -> Ledger:
    """Return the ledger of a turn within its run; without `run`, of one that has used nothing yet."""
    return Ledger("turn", budgets.turn, clock, parent=run or Ledger("run", budgets.run, clock))
