"""Ends what is under way when a bound of the turn, or of its run, is reached."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from halo.runner.budgets import Ledger, Reached

# What is said where a timer was a little faster than the ledger's clock.
_TIME = Reached("time", "the time for this turn")

_T = TypeVar("_T")


class Over(Exception):  # noqa: N818  # it is no error: a turn ends by it
    """A bound of the turn, or of its run, is reached."""

    def __init__(self, reached: Reached) -> None:
        self.reached = reached


def check_bounds(ledger: Ledger) -> None:
    """Raise `Over` if a bound is reached."""
    reached = ledger.reached()
    if reached is not None:
        raise Over(reached)


def time_bound(ledger: Ledger) -> Reached:
    """Return the bound that is reached when the time is over."""
    return ledger.reached() or _TIME


async def within_time(source: AsyncIterator[_T], ledger: Ledger) -> AsyncGenerator[_T, None]:
    """Pass on what `source` yields; raise `Over`, and close it, when the time is over."""
    try:
        while True:
            left = ledger.seconds_left()
            if left == 0:  # nothing is begun any more
                raise Over(time_bound(ledger))
            try:
                async with asyncio.timeout(left) as timer:
                    item = await anext(source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not timer.expired():
                    raise  # it is the source's own
                raise Over(time_bound(ledger)) from None
            yield item
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
