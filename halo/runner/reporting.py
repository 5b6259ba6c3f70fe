"""What is recorded of a model call and of attempts that failed: the figures, and what they cost."""

from typing import TypeVar

import msgspec

from halo.models.adapter import Finished, Lost
from halo.records.events import UsageLost, UsageReported
from halo.runner.budgets import Ledger, Price

_Used = TypeVar("_Used", bound=UsageReported | UsageLost)


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


def report_lost(provider: str, lost: Lost) -> UsageLost:
    """Return the figures of an attempt that failed; what it costs is added by `charge`."""
    return UsageLost(provider=provider, model=lost.model, usage=lost.usage)


def charge(ledger: Ledger, price: Price, used: _Used) -> _Used:
    """Add a call, or an attempt that failed, to a ledger, and return it with what it costs."""
    cost = price(used.usage)
    if isinstance(used, UsageReported):
        ledger.add(used.usage, cost)
    else:
        ledger.lose(used.usage, cost)
    if cost is None:
        return used
    return msgspec.structs.replace(used, cost=cost.amount, currency=cost.currency)
