"""How many turns run at once: whoever runs one has a slot, and lends it to others while it waits for them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from halo.errors import BusyError
from halo.files.locks import FileLock, hold
from halo.files.regular import refuse_links

FOLDER = "slots"
_EVERY = 0.05  # seconds between two looks for a slot that another process may have let go


class RunSlots:
    """The slots of a run, whichever processes take part in it: locks in the folder of its root.

    They go with the process that holds them, whatever its end.
    """

    def __init__(self, root: str, most: int) -> None:
        self._root, self._most = root, most
        refuse_links(root, FOLDER)

    def take(self) -> FileLock | None:
        """Take one, if one is free. Raises OSError."""
        for number in range(self._most):
            lock = hold(os.path.join(self._root, FOLDER, str(number)), what="a slot of the run")
            try:
                lock.acquire()
            except BusyError:
                continue
            return lock
        return None


class Slot:
    """One of the slots of this process, as long as it is held, and for a turn one of its run's, too."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free, self._held = free, True
        self._run: RunSlots | None = None
        self._of_run: FileLock | None = None

    def give_back(self) -> None:
        """Let somebody else have it. Does nothing where that was done."""
        self._let_go()
        if self._held:
            self._held = False
            self._free.release()

    @asynccontextmanager
    async def of_run(self, slots: RunSlots, waits: Callable[[], None]) -> AsyncIterator[None]:
        """Hold a slot of the run, too; `waits` is told once when other processes have all of them."""
        self._run = slots
        try:
            self._of_run = slots.take()
            if self._of_run is None:
                waits()
                await self._take(slots)
            yield
        finally:
            self._run = None
            self._let_go()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let others run meanwhile, and wait for a slot behind it.

        Whoever breaks off meanwhile does not wait: what is left to do then is to end.
        """
        self.give_back()
        yield
        await self._free.acquire()
        self._held = True
        if self._run is not None:
            await self._take(self._run)

    async def _take(self, slots: RunSlots) -> None:
        while (lock := slots.take()) is None:  # noqa: ASYNC110  # another process lets it go
            await asyncio.sleep(_EVERY)
        self._of_run = lock

    def _let_go(self) -> None:
        lock, self._of_run = self._of_run, None
        if lock is not None:
            lock.release()


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
