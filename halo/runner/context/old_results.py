"""When old results of tools go although there is room: by time, in a cold cache, and by size."""

from halo.runner.context.prune import prune
from halo.runner.context.units import View
from halo.runner.record import History

# They go when that spares this part of the limit: little where the provider's cache holds nothing of the
# history any more, much where they are read from it with every call.
_COLD = 20
_WARM = 4


class OldResults:
    """Looks at the results in one conversation; in a warm cache again only when it has grown by `step`."""

    def __init__(self, limit: int, step: int) -> None:
        self._limit, self._step = limit, step
        self._next = limit // 2  # from how many tokens on they are looked at

    def reason(self, history: History, tokens: int, *, cold: bool) -> str:
        """Say why results should go from a history of `tokens`: `cold`, `size`; empty if they should not."""
        if not cold and tokens < self._next:
            return ""
        self._next = max(self._next, tokens + self._step)
        shorter = history.copy()
        shorter.apply(prune(View.of(history), 0))
        spared = sum(history.weights) - sum(shorter.weights)
        if spared >= self._limit // (_COLD if cold else _WARM):
            return "cold" if cold else "size"
        return ""
