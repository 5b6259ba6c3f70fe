"""Takes what waits for the sessions of a workspace, until it is told to stop."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator

from halo.errors import LogError
from halo.sessions.derived import read_header
from halo.sessions.engine.engine import Engine
from halo.sessions.engine.unfinished import unfinished_sessions
from halo.sessions.find import begun_here, find_session, session_ids
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.control import NAME as STOP
from halo.sessions.inbox.folder import FOLDER as INBOX
from halo.sessions.inbox.marks import marked, marks_folder, unmark

_TICK = 5.0  # seconds after which it looks without having been woken: some file systems tell of nothing
_SEARCH = 60.0  # seconds between two looks into all inboxes: a sender may have died before it left a mark
_ALONE = 10.0  # seconds after which nobody is about to take a message
_PATIENCE = 30.0  # seconds before a session whose turn failed is tried again; doubled each time
_LONGEST_PATIENCE = 1_800.0


class Worker:
    """Wakes the sessions for which messages wait, in one engine. Several workers may run at once.

    It takes only sessions that were begun on this machine: a folder of sessions may come with a clone, and
    what waits in it is not to be run. `tell` gets what the user should know; `clock` is in seconds.
    """

    def __init__(
        self, engine: Engine, home: str, tell: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._engine, self._home, self._tell, self._clock = engine, home, tell, clock
        self._not_before: dict[str, float] = {}
        self._failed: dict[str, int] = {}  # how many failures of a session are waited for
        self._refused: set[str] = set()

    async def drain(self, sessions: Iterable[str] = ()) -> None:
        """Take what waits now, in `sessions` or everywhere, and what comes of it.

        Raises `UnknownNameError` for one that there is not.
        """
        named = [find_session(self._engine.sessions, session_id).id for session_id in sessions]
        for session_id in named or self._to_do():
            self._wake(session_id)
        await self._engine.settled()

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until `stop` is set; then the turns that run come to their end, and no other begins."""
        os.makedirs(marks_folder(self._engine.sessions), exist_ok=True)
        for session_id in await asyncio.to_thread(self._to_do):
            self._wake(session_id)
        searched = self._clock()
        async for _ in _changes(marks_folder(self._engine.sessions), stop):
            found = marked(self._engine.sessions)
            if self._clock() - searched > _SEARCH:
                found += await asyncio.to_thread(self._to_do, time.time() - _ALONE)
                searched = self._clock()
            for session_id in found:
                self._wake(session_id)
        self._engine.finish()
        await self._engine.settled()

    def _to_do(self, before: float | None = None) -> list[str]:
        """Look for messages, marked or not, and for what a process left behind that died.

        `before`: what has just come is about to be taken.
        """
        sessions = self._engine.sessions
        found = (
            *waiting_sessions(sessions, before=before),
            *unfinished_sessions(sessions, self._home, before=before),
        )
        return [*dict.fromkeys(found)]

    async def close(self) -> None:
        """Break off what still runs."""
        await self._engine.close()

    def _wake(self, session_id: str) -> None:
        if session_id in self._engine.running or self._not_before.get(session_id, 0.0) > self._clock():
            return
        if not self._is_own(session_id):
            return
        failures = self._engine.failures.get(session_id, 0)
        if failures > self._failed.get(session_id, 0):
            pause = min(_PATIENCE * 2.0 ** (failures - 1), _LONGEST_PATIENCE)
            self._not_before[session_id] = self._clock() + pause
            self._failed[session_id] = failures
            return
        if not failures:
            self._failed.pop(session_id, None)
        self._engine.wake(session_id)

    def _is_own(self, session_id: str) -> bool:
        folder = SessionFolder(self._engine.sessions, session_id)
        try:
            header = read_header(folder)
        except LogError as error:
            self._refuse(session_id, f"cannot be read: {error}")
            return False
        if header is None or header.seq == 0 == header.log_bytes:
            unmark(self._engine.sessions, session_id)  # it was deleted, or never begun
            return False
        if not begun_here(header, self._home):
            self._refuse(session_id, "was begun elsewhere; halo run -s goes on in it")
            return False
        return True

    def _refuse(self, session_id: str, why: str) -> None:
        if session_id not in self._refused:
            self._refused.add(session_id)
            self._tell(f"session {session_id} is left alone: it {why}")


def waiting_sessions(sessions: str, *, before: float | None = None) -> Iterator[str]:
    """Yield the sessions with something in their inboxes, or a wish to stop, marked or not.

    `before`: only where nothing has changed since then (seconds since the epoch).
    """
    for session_id in session_ids(sessions):
        folder = SessionFolder(sessions, session_id).path
        stop, inbox = os.path.join(folder, STOP), os.path.join(folder, INBOX)
        if (_is_since(stop, before) and os.path.lexists(stop)) or (
            _is_since(inbox, before) and _has_files(inbox)
        ):
            yield session_id


def _is_since(path: str, before: float | None) -> bool:
    try:
        return before is None or os.lstat(path).st_mtime < before
    except OSError:
        return False


def _has_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(".json") for entry in entries)
    except OSError:
        return False


async def _changes(folder: str, stop: asyncio.Event) -> AsyncGenerator[None, None]:
    """Yield when something changed in `folder`, and from time to time without."""
    from watchfiles import awatch

    yield
    changes = awatch(
        folder,
        stop_event=stop,
        debounce=50,
        rust_timeout=int(_TICK * 1000),
        yield_on_timeout=True,
        recursive=False,
    )
    async for _ in changes:
        yield
