"""Runs the sessions of one process: each takes what waits in its inbox, turn by turn."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial

from halo.errors import BusyError, HaloError
from halo.models.adapter import Notice
from halo.records.artifacts import Artifact
from halo.records.incoming import Incoming
from halo.runner.turn import TurnEvent
from halo.sessions.choice import Choice, choose
from halo.sessions.delegation.answers import Awaited
from halo.sessions.delegation.settling import Settled, settle_end, settle_turn, unsettled_children
from halo.sessions.delegation.tools import Delegation
from halo.sessions.desk import Desk
from halo.sessions.engine.holding import Holding
from halo.sessions.engine.ledgers import Ledgers
from halo.sessions.engine.redelivering import send_due
from halo.sessions.engine.slots import RunSlots, Slot, Slots
from halo.sessions.find import find_session, sessions_folder
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.reply import Began, Reply
from halo.sessions.turns import Aside

# Is told what happens in which session, when it is on disk.
ShowIn = Callable[[str, TurnEvent | Began], None]

_EVERY = 0.5  # seconds between two looks at a session that another process runs
_RETRIES = (0.05, 0.2, 1.0)  # seconds: whoever renames a session, or sets something, has it for a moment


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
        self._slots = Slots(self.settings.concurrency)
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._replies: dict[str, Reply] = {}
        self._errors: dict[str, Exception] = {}  # why the last turn of a woken session failed
        self._fault: BaseException | None = None
        self._moved = asyncio.Event()  # something ended: who waits looks again
        self._finishing = False
        self.failures: dict[str, int] = {}  # how often in a row the turns of a woken session failed

    @property
    def running(self) -> frozenset[str]:
        """The sessions that run here now."""
        return frozenset(name for task, name in self._tasks.items() if name and not task.done())

    async def run(self, choice: Choice, *messages: Incoming) -> Reply:
        """Run a turn with `messages` in the chosen session, then whatever it and its children set going.

        Returns the last reply of that session, and raises what its last turn raises; errors of other sessions
        are recorded there, and shown. Cancelling ends all turns of this engine as interrupted.
        """
        first = asyncio.create_task(self._drain(choice, messages))
        self._tasks[first] = choice.folder.id if choice.folder is not None else ""
        try:
            await first
            session_id = self._tasks.pop(first)
            await self.settled()
        finally:
            await self.close()
        if session_id in self._errors:
            raise self._errors[session_id]
        return self._replies[session_id]

    def wake(self, session_id: str) -> None:
        """Let a session take what waits in its inbox, now or when its present turn is over."""
        if self._finishing:
            mark(self.sessions, session_id)
        elif session_id not in self.running:
            task = asyncio.create_task(self._woken(session_id))
            self._tasks[task] = session_id
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._moved.set()
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()

    async def settled(self) -> None:
        """Wait until no session runs here. Raises what went wrong that is no fault of a session."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def finish(self) -> None:
        """Begin no further turn: what waits stays where it is, marked for whoever comes next."""
        self._finishing = True

    async def close(self) -> None:
        """End all turns as interrupted; what they leave begins no other."""
        finishing, self._finishing = self._finishing, True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._finishing = finishing

    async def answer(self, session_id: str, message_id: str, seconds: float) -> None:
        """Wait until the turn that takes a message is over, for so many seconds at most."""
        folder = find_session(self.sessions, session_id)
        awaited = Awaited(folder, message_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            self._moved.clear()
            left = until - loop.time()
            if awaited.look().ended or left <= 0:
                return
            await self._changed(folder, left)

    async def _changed(self, folder: SessionFolder, seconds: float) -> None:
        """Wait until something ended here, or the log of a session that runs elsewhere may have grown."""
        wait = seconds if folder.id in self.running else min(seconds, _EVERY)
        try:
            async with asyncio.timeout(wait):
                await self._moved.wait()
        except TimeoutError:
            return

    async def _woken(self, session_id: str) -> None:
        """Drain a session that nobody waits for: its errors are in its log, and are told."""
        home = self.desk.builder.places.home
        self._errors.pop(session_id, None)
        try:
            choice = choose(self.sessions, None, "session", home=home, named=session_id, new=False)
            await self._drain(choice, ())
            self.failures.pop(session_id, None)
        except Exception as error:  # noqa: BLE001  # one session ends; the others go on
            if not SessionFolder(self.sessions, session_id).exists():
                return  # somebody deleted it
            self._errors[session_id] = error
            self.failures[session_id] = self.failures.get(session_id, 0) + 1
            what = str(error) if isinstance(error, HaloError) else f"{type(error).__name__}: {error}"
            self._show(session_id, Notice(f"session {session_id} ended with an error: {what}"))

    async def _drain(self, choice: Choice, messages: tuple[Incoming, ...]) -> None:
        """Run the turns of one session until nothing waits for it.

        One that another process has is left to it: whoever runs a session looks into the inbox before and
        after letting it go, and whoever only changes something in it has done so soon.
        """
        retries = iter(_RETRIES)
        again = True
        while again:
            async with self._slots.one() as slot:
                if self._finishing and not messages:
                    break
                holding = Holding(self.desk, choice, messages, self._show, frozen=self._frozen)
                try:
                    again = await self._hold(holding, slot)
                    choice, messages = holding.choice, ()
                    continue
                except BusyError:
                    if holding.opened or messages:
                        raise
            pause = next(retries, None)
            if pause is None or not _waits(choice):
                break
            await asyncio.sleep(pause)
        if again and choice.folder is not None and _waits(choice):
            mark(self.sessions, choice.folder.id)  # for whoever comes next

    async def _hold(self, holding: Holding, slot: Slot) -> bool:
        """Hold a session while messages wait for it; tell whether one came after the last look."""
        task = asyncio.current_task()
        async with holding as session:
            if task in self._tasks:
                self._tasks[task] = session.folder.id
            aside = Aside(
                self._ledgers.of_turn,
                Delegation(self, session, slot.lent).tools,
                lambda artifact: self._place(session, artifact, slot, ours=holding.ours),
            )
            with self._ledgers.open(session):
                if holding.ours:
                    self._answer_senders(session)  # of a turn after which a process died
                    await send_due(self.desk, session, partial(self._show, session.folder.id))
                    for child in unsettled_children(self.desk, session):
                        self.wake(child)
                try:
                    async with aclosing(holding.turns(aside)) as replies:
                        async for reply in replies:
                            self._replies[session.folder.id] = reply
                            if holding.ours:
                                self._answer_senders(session)
                            self._moved.set()
                            if self._finishing:
                                break
                finally:
                    if session.sound and holding.ours:
                        self._answer_senders(session)
                        self._pass_on(session, settle_end(self.desk, session))
        for child in holding.stopped_children:
            self.wake(child)
        if self._finishing and holding.waits():
            mark(self.sessions, holding.session_id)
        return holding.waits() and not self._finishing

    def _place(
        self, session: OpenSession, artifact: Artifact, slot: Slot, *, ours: bool
    ) -> AbstractAsyncContextManager[None]:
        """Return a place among the turns of a run; a session that is alone in its own needs none.

        Where the root is gone there is no bound but that of this process.
        """
        created, own = session.conversation.created, session.folder
        above = created.root if created is not None and ours else ""
        root = SessionFolder(self.sessions, above) if above else own
        if (root.id == own.id and not artifact.manifest.team) or not root.exists():
            return nullcontext()
        most = self.settings.concurrency
        waits = Notice(f"session {own.id} waits: {most} turns of its run are at work in other processes")
        return slot.of_run(RunSlots(root.path, most), lambda: self._show(own.id, waits))

    def _answer_senders(self, session: OpenSession) -> None:
        self._pass_on(session, settle_turn(self.desk, session, self.settings.ping_pong))

    def _pass_on(self, session: OpenSession, settled: Settled) -> None:
        for problem in settled.problems:
            self._show(session.folder.id, Notice(f"warning: {problem}"))
        for session_id in settled.wake:
            self.wake(session_id)


def _waits(choice: Choice) -> bool:
    return choice.folder is not None and bool(Inbox(choice.folder.path).count())
