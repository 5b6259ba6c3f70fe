"""Watches a session's inbox while a turn runs: who wants it to give way, to break off, or to stop."""

import asyncio
import os
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress

from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.control import NAME, wanted_stop
from halo.sessions.inbox.folder import Inbox

_EVERY = 0.1  # seconds between two looks: two calls of stat
_COARSE_NS = 2 * 10**9  # no file system has stamps that are coarser


class Attention:
    """What the messages that arrive during a turn ask of it.

    `soft`: it gives way when the tool that runs is done. `hard`: it was broken off for a message. `stopped`:
    it was broken off because the session shall stop. `known` are the ids that the turn has taken already,
    `waited` the files of messages that waited before and are not for it.
    """

    def __init__(self, folder: SessionFolder, known: set[str], waited: Iterable[str] = ()) -> None:
        self.soft = False
        self.hard = False
        self.stopped = False
        self._folder, self._known = folder, known
        self._inbox = Inbox(folder.path)
        self._seen = set(waited)
        self._stamp = -1

    @property
    def ended_it(self) -> bool:
        """Whether what was cancelled was so for a message, or a wish to stop, and for nothing else.

        Whoever is cancelled at the same time (Ctrl-C) goes no further.
        """
        task = asyncio.current_task()
        return (self.hard or self.stopped) and not (task is not None and task.cancelling())

    async def watch(self, turn: "asyncio.Task[None]") -> None:
        """Look until the turn is over, and cancel it where it shall break off at once."""
        while not turn.done():
            with suppress(OSError):  # a folder that cannot be read now may be the next time
                self._look()
            if self.hard or self.stopped:
                turn.cancel()
                return
            await asyncio.wait({turn}, timeout=_EVERY)

    def _look(self) -> None:
        if os.path.lexists(os.path.join(self._folder.path, NAME)):
            self.stopped = wanted_stop(self._folder.path) is not None
        stamp = self._inbox.stamp()
        # What came just behind the last look may have left the same stamp.
        if stamp == self._stamp and time.time_ns() - stamp > _COARSE_NS:
            return
        self._stamp = stamp
        arrived = self._inbox.waiting(but=self._seen)[0]
        self._seen.update(waiting.name for waiting in arrived)
        for waiting in arrived:
            if waiting.message.id not in self._known:
                self.soft = self.soft or waiting.message.interrupt == "soft"
                self.hard = self.hard or waiting.message.interrupt == "hard"


async def attended(turn: Coroutine[None, None, None], attention: Attention) -> None:
    """Run the turn while somebody watches what arrives for the session."""
    task = asyncio.create_task(turn)
    watcher = asyncio.create_task(attention.watch(task))
    try:
        await task
    finally:
        watcher.cancel()
        if not task.done():  # whoever waited here was cancelled
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
