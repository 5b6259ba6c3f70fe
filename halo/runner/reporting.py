"""What is recorded of a model call: its figures, and what it cost."""

import msgspec

from halo.models.adapter import Finished
from halo.records.events import UsageReported
from halo.runner.budgets import Ledger, Price


def report(provider: str, finished: Finished, attempts: int) -> UsageReported:
    """Return the figures of a call that took so many attempts; what it costs is added by `charge`."""
    return UsageReported(
        provider=provider,
        model=finished.model,
        usage=finished.usage,
        request_digest=finished.request_digest,
        stop_reason=finished.stop_reason,
        restored=finished.restored,
        expected=finished.expected,
        attempts=attempts,
        prefix=finished.prefix,
    )


def charge(ledger: Ledger, price: Price, call: UsageReported) -> UsageReported:
    """Add a call to a ledger, and return it with what it costs."""
    cost = price(call.usage)
    ledger.add(call.usage, cost)
    if cost is None:
        return call
    return msgspec.structs.replace(call, cost=cost.amount, currency=cost.currency)
