"""Runs the sessions of one process: each takes what waits in its inbox, turn by turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from halo.errors import BusyError, HaloError
from halo.models.adapter import Notice
from halo.records.incoming import Incoming
from halo.runner.turn import TurnEvent
from halo.sessions.choice import Choice, choose
from halo.sessions.delegation.answers import Outcome, outcome_of
from halo.sessions.delegation.settling import Settled, settle_end, settle_turn, unsettled_children
from halo.sessions.delegation.tools import Delegation
from halo.sessions.desk import Desk
from halo.sessions.engine.holding import Holding
from halo.sessions.engine.ledgers import Ledgers
from halo.sessions.find import find_session, sessions_folder
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.marks import mark
from halo.sessions.reply import Began, Reply
from halo.sessions.turns import Aside

# Is told what happens in which session, when it is on disk.
ShowIn = Callable[[str, TurnEvent | Began], None]

_EVERY = 0.5  # seconds between two looks at a session that another process runs


class Engine:
    """The sessions that this process runs, each in a task of its own. Use it in one event loop.

    `show` is told of every session. With `frozen` stale artifacts are refused. Not more turns than the
    settings allow run at once; one that waits for another does not count.
    """

    def __init__(self, desk: Desk, show: ShowIn, *, frozen: bool = False) -> None:
        self.desk = desk
        self.sessions = sessions_folder(desk.builder.places.halo)
        self.settings = desk.delegation()
        self._ledgers = Ledgers(desk)
        self._show = show
        self._frozen = frozen
        self._slots = asyncio.Semaphore(self.settings.concurrency)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._replies: dict[str, Reply] = {}
        self._asked: dict[str, set[str]] = {}  # ids of messages whose answer somebody here waits for
        self._moved = asyncio.Event()  # something ended: who waits looks again
        self._finishing = False
        self.failures: dict[str, int] = {}  # how often in a row the turns of a woken session failed

    @property
    def running(self) -> frozenset[str]:
        """The sessions that run here now."""
        return frozenset(name for task, name in self._tasks.items() if name and not task.done())

    async def run(self, choice: Choice, *messages: Incoming) -> Reply:
        """Run a turn with `messages` in the chosen session, then whatever it and its children set going.

        Returns the last reply of that session. Raises what its first turns raise; errors of other sessions
        are recorded there, and shown. Cancelling ends all turns of this engine as interrupted.
        """
        first = asyncio.create_task(self._drain(choice, messages))
        self._tasks[first] = choice.folder.id if choice.folder is not None else ""
        try:
            await first
            session_id = self._tasks[first]
            await self.settled()
        finally:
            await self.close()
        return self._replies[session_id]

    def wake(self, session_id: str) -> None:
        """Let a session take what waits in its inbox, now or when its present turn is over."""
        if session_id not in self.running and not self._finishing:
            task = asyncio.create_task(self._woken(session_id))
            task.add_done_callback(lambda _: self._moved.set())
            self._tasks[task] = session_id

    async def settled(self) -> None:
        """Wait until no session runs here. Raises the first error that is none of a session's own."""
        while self._tasks:
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self._tasks[task]
                task.result()

    def finish(self) -> None:
        """Begin no further turn: what waits stays where it is, marked for whoever comes next."""
        self._finishing = True

    async def close(self) -> None:
        """End all turns as interrupted."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    async def answer(self, session_id: str, message_id: str, seconds: float) -> Outcome:
        """Wait until the turn that takes a message is over, for so many seconds at most.

        The outcome without an end says that it is not over yet. Whoever waits is no turn that runs.
        """
        folder = find_session(self.sessions, session_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        self._asked.setdefault(session_id, set()).add(message_id)
        try:
            async with self._pausing():
                while True:
                    self._moved.clear()
                    outcome = outcome_of(folder, message_id)
                    left = until - loop.time()
                    if outcome.ended or left <= 0:
                        return outcome
                    await self._changed(folder, left)
        finally:
            self._asked[session_id].discard(message_id)

    async def _changed(self, folder: SessionFolder, seconds: float) -> None:
        """Wait until something ended here, or the log of a session that runs elsewhere may have grown."""
        wait = seconds if folder.id in self.running else min(seconds, _EVERY)
        try:
            async with asyncio.timeout(wait):
                await self._moved.wait()
        except TimeoutError:
            return

    @asynccontextmanager
    async def _pausing(self) -> AsyncIterator[None]:
        """Let others run while a turn waits."""
        self._slots.release()
        try:
            yield
        finally:
            await self._slots.acquire()

    async def _woken(self, session_id: str) -> None:
        """Drain a session that nobody waits for: its errors are in its log, and are told."""
        home = self.desk.builder.places.home
        try:
            choice = choose(self.sessions, None, "session", home=home, named=session_id, new=False)
            await self._drain(choice, ())
            self.failures.pop(session_id, None)
        except BusyError:
            return  # whoever holds it looks into the inbox before and after it lets go
        except HaloError as error:
            self.failures[session_id] = self.failures.get(session_id, 0) + 1
            self._show(session_id, Notice(f"session {session_id} ended with an error: {error}"))

    async def _drain(self, choice: Choice, messages: tuple[Incoming, ...]) -> None:
        """Run the turns of one session until nothing waits for it."""
        again = True
        while again:
            async with self._slots:
                holding = Holding(self.desk, choice, messages, self._show, frozen=self._frozen)
                again = await self._hold(holding)
            choice, messages = holding.choice, ()

    async def _hold(self, holding: Holding) -> bool:
        """Hold a session while messages wait for it; tell whether one came after the last look."""
        task = asyncio.current_task()
        async with holding as session:
            if task in self._tasks:
                self._tasks[task] = session.folder.id
            for child in unsettled_children(self.desk, session):
                self.wake(child)
            try:
                async with aclosing(holding.turns(self._aside(session))) as replies:
                    async for reply in replies:
                        self._replies[session.folder.id] = reply
                        asked = self._asked.get(session.folder.id, set())
                        self._pass_on(settle_turn(self.desk, session, asked, self.settings.ping_pong))
                        self._moved.set()
                        if self._finishing:
                            break
            finally:
                if session.sound:
                    self._pass_on(settle_end(self.desk, session))
        for child in holding.stopped_children:
            self.wake(child)
        if self._finishing and holding.waits():
            mark(self.sessions, holding.session_id)
        return holding.waits() and not self._finishing

    def _pass_on(self, settled: Settled) -> None:
        for session_id in settled.wake:
            mark(self.sessions, session_id)
            self.wake(session_id)

    def _aside(self, session: OpenSession) -> Aside:
        return Aside(self._ledgers.of_turn, Delegation(self, session).tools)
