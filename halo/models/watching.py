"""An adapter whose replies say what the provider's cache should have held, and that warns when it did not."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from halo.models.adapter import Adapter, Finished, ModelEvent, Request
from halo.models.cache_watch import CacheWatch


class WatchedAdapter:
    """Wraps the adapter of one conversation; `clock` is in seconds since the epoch."""

    def __init__(self, inner: Adapter, watch: CacheWatch, clock: Callable[[], float] = time.time) -> None:
        self.inner = inner
        self._watch = watch
        self._clock = clock

    @property
    def provider(self) -> str:
        """The wrapped adapter's."""
        return self.inner.provider

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; see `Adapter.stream`."""
        expected = self._watch.expect(request, self._clock())
        prefix = self._watch.prefix_digest(request)
        async with aclosing(self.inner.stream(request)) as events:
            async for event in events:
                if not isinstance(event, Finished):
                    yield event
                    continue
                notice = self._watch.seen(event, self._clock())
                if notice is not None:
                    yield notice
                yield msgspec.structs.replace(event, expected=expected, prefix=prefix)

    async def count(self, request: Request) -> int:
        """Ask for the tokens of a request; see `Adapter.count`."""
        return await self.inner.count(request)

    async def close(self) -> None:
        """Close the wrapped adapter."""
        await self.inner.close()
