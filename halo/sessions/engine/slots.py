"""How many turns run at once: whoever runs one has a slot, and lends it to others while it waits for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slot:
    """One of the slots, as long as it is held."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free, self._held = free, True

    def give_back(self) -> None:
        """Let somebody else have it. Does nothing where that was done."""
        if self._held:
            self._held = False
            self._free.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let others run meanwhile, and wait for a slot behind it.

        Whoever breaks off meanwhile does not wait: what is left to do then is to end.
        """
        self.give_back()
        yield
        await self._free.acquire()
        self._held = True


class Slots:
    """`most` slots."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Slot]:
        """Wait for a slot, and hold it."""
        await self._free.acquire()
        slot = Slot(self._free)
        try:
            yield slot
        finally:
            slot.give_back()
