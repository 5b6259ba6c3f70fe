"""What a call cost, by the prices of the model catalogue. Pure."""

from collections.abc import Sequence
from datetime import date

import msgspec

from halo.records.artifacts import CacheTime
from halo.records.usage import Usage
from halo.workspace.models.catalogue import Price

_MILLION = 1_000_000


class Cost(msgspec.Struct, frozen=True):
    """An amount of money. Nothing is rounded here: who shows it rounds."""

    amount: float
    currency: str


def cost_of(usage: Usage, prices: Sequence[Price], day: date, cache: CacheTime = "5m") -> Cost | None:
    """Return what `usage` costs by the price that holds on `day`; None where no price is known.

    That is the newest that begins no later; of days before the first one nothing is known. Tokens that were
    read from a cache or written to one cost as the rest of the input where the price does not say.

    `cache` is how long the binding asks for a prefix to be kept. With `1h` all that was written is counted
    at the price of an hour, although the end of a conversation is written for less: the cost is a bound then.
    """
    price = price_on(prices, day)
    if price is None:
        return None
    read = price.input if price.cache_read is None else price.cache_read
    amount = (
        usage.uncached * price.input
        + usage.read * read
        + usage.written * _write(price, cache)
        + usage.output * price.output
    )
    return Cost(amount / _MILLION, price.currency)


def price_on(prices: Sequence[Price], day: date) -> Price | None:
    """Return the price that holds on `day`; None where none is known to."""
    begun = [price for price in prices if price.since <= day]
    return max(begun, key=lambda price: price.since, default=None)


def _write(price: Price, cache: CacheTime) -> float:
    if cache == "1h" and price.cache_write_1h is not None:
        return price.cache_write_1h
    return price.input if price.cache_write is None else price.cache_write
