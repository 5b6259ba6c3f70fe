"""Calls that failed in a way that passes are made again.

The request is the same object each time, so nothing of it is sent twice in one call. A stream that broke off
in the middle begins anew: `Retrying` says that what was said so far is void.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from halo.errors import ProviderError
from halo.models.adapter import Adapter, Finished, ModelEvent, Request, Retrying


class Patience(msgspec.Struct, frozen=True):
    """How long to go on: `attempts` in all.

    Waits, in seconds: any time up to `first`, then up to twice that, at most `most`. What the other side asks
    for counts instead, unless it is more than `longest`.
    """

    attempts: int = 5
    first: float = 1.0
    most: float = 60.0
    longest: float = 120.0


_PATIENT = Patience()


class RetryingAdapter:
    """Wraps an adapter; see the module. `chance` returns numbers from 0 to 1; `sleep` waits for seconds."""

    def __init__(
        self,
        inner: Adapter,
        patience: Patience = _PATIENT,
        *,
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.inner = inner
        self._patience = patience
        self._chance = chance
        self._sleep = sleep

    @property
    def provider(self) -> str:
        """The wrapped adapter's."""
        return self.inner.provider

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        attempt = 0
        while True:
            attempt += 1
            whole = False
            try:
                async with aclosing(self.inner.stream(request)) as events:
                    async for event in events:
                        whole = whole or isinstance(event, Finished)
                        yield event
                return
            except ProviderError as error:
                if whole:
                    raise  # the reply is there and has been taken: it must not come twice
                wait, reason = self._wait(error, attempt), error.message
            yield Retrying(reason, wait, attempt)
            await self._sleep(wait)

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request, once: nobody could be told of waits. See `Adapter.count`."""
        return await self.inner.count(request)

    async def close(self) -> None:
        """Close the wrapped adapter."""
        await self.inner.close()

    def _wait(self, error: ProviderError, attempt: int) -> float:
        """Return how many seconds to wait after an attempt; raise what is final."""
        patience = self._patience
        if error.kind not in ("rate_limit", "transient"):
            raise error
        if attempt >= patience.attempts:
            raise _given_up(error, f"tried {attempt} times") if attempt > 1 else error
        asked = error.retry_after or 0.0
        if asked > patience.longest:
            raise _given_up(error, f"it asks to wait {asked:,.0f} s; Halo waits {patience.longest:,.0f} s")
        longest = min(patience.most, patience.first * 2.0 ** (attempt - 1))
        # All who were sent away together must not come back together.
        return asked + self._chance() * (min(patience.first, longest) if asked else longest)


def _given_up(error: ProviderError, why: str) -> ProviderError:
    return ProviderError(
        f"{error.message} ({why})", hint=error.hint, kind=error.kind, retry_after=error.retry_after
    )
