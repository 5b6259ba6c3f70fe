"""What a session has used, against its budgets, and what its model costs."""

from datetime import UTC, date, datetime
from typing import NamedTuple

from halo.files.tree import Tree
from halo.models.prices import Cost, cost_of
from halo.records.artifacts import Runtime
from halo.records.headers import Header
from halo.records.usage import Usage
from halo.runner.budgets import Price, Spent
from halo.sessions.history import Conversation
from halo.workspace.models.catalogue import prices_of


def today(now_ns: int) -> date:
    """Return the day in UTC of a wall clock in ns since the epoch."""
    return datetime.fromtimestamp(now_ns / 1e9, UTC).date()


def price_of(tree: Tree, runtime: Runtime, day: date) -> Price:
    """Return what calls of the bound model cost on `day`. Raises LayerError for a broken catalogue."""
    binding = runtime.binding
    prices = prices_of(tree, binding.provider, binding.model)

    def price(usage: Usage) -> Cost | None:
        return cost_of(usage, prices, day, binding.cache)

    return price


def spent_of(conversation: Conversation) -> Spent:
    """Return what the turns of a session have used."""
    used = conversation.usage
    return Spent(conversation.calls, used.prompt + used.output, conversation.cost, conversation.seconds)


class Used(NamedTuple):
    """Model calls, tokens (sent and produced) and money."""

    calls: int
    tokens: int
    cost: float


def used_of(header: Header) -> Used:
    """Return what a session has used, and those that it started and that are gone."""
    return Used(
        header.calls + header.removed_calls,
        header.usage.prompt + header.usage.output + header.removed_tokens,
        header.cost + header.removed_cost,
    )
