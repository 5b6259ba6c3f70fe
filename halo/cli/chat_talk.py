"""A conversation at a terminal: what is typed becomes a command, a turn, or waits for the turn that runs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from halo.errors import HaloError
from halo.records.incoming import Incoming
from halo.records.targets import Access
from halo.runner.turn import TurnEvent
from halo.sessions.choice import Choice
from halo.sessions.commands.answers import Answer
from halo.sessions.commands.doing import admit, command_in, perform
from halo.sessions.commands.reading import Command
from halo.sessions.desk import Desk
from halo.sessions.engine.engine import Engine, ShowIn
from halo.sessions.folder import SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.reply import Began
from halo.sessions.talk import typed

_T = TypeVar("_T")

_SECONDS = 2.0  # that a turn has to end when its user leaves


class Talk:
    """One conversation. `show` is told what happens in which session, `tell` what the user should know.

    `answered` gets the answers of commands, `over` the reason for which a turn has ended. `named`: the user
    named the session, so that no rule ends it. Use it in one event loop, and `leave` at the end.
    """

    def __init__(
        self,
        desk: Desk,
        choice: Choice,
        show: ShowIn,
        tell: Callable[[str], None],
        answered: Callable[[Answer], None],
        over: Callable[[str], None],
        *,
        named: bool,
        access: Access,
    ) -> None:
        self.desk, self.choice = desk, choice
        self._show, self._tell, self._answered, self._over = show, tell, answered, over
        self._named, self._access = named, access
        self._engine = Engine(desk, self._shown)
        self._work: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[Any] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._later: list[tuple[Command | None, Incoming]] = []
        self._leaving = False

    @property
    def busy(self) -> bool:
        """Whether something runs that what is typed now waits for."""
        return self._work is not None and not self._work.done()

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        folder = self.choice.folder
        return len(self._later) + (Inbox(folder.path).count() if folder is not None else 0)

    def take(self, text: str) -> None:
        """Take what was typed; it goes on by itself."""
        message = typed(text, self.desk.now_ns(), access=self._access)
        try:
            command = command_in(self.desk, message)
        except HaloError as error:
            self._tell(f"halo: {error}")
            return
        if command is not None and command.spec.beside:
            task = asyncio.create_task(self._guarded(self._do(command, message)))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
        elif not self.busy:
            self._later.append((command, message))
            self._work = asyncio.create_task(self._work_on())
        elif command is None and not self._later and self.choice.folder is not None:
            self._queue(self.choice.folder, message)
        else:
            self._later.append((command, message))
            self._tell("it waits for the end of the turn")

    def interrupt(self) -> None:
        """Break the turn that runs off: what was said so far is kept, what waits comes next."""
        if self._turn is not None:
            self._turn.cancel()

    async def idle(self) -> None:
        """Wait until nothing runs here."""
        while self.busy or self._beside:
            tasks = {*self._beside, *([self._work] if self._work is not None else [])}
            await asyncio.wait(tasks)

    async def leave(self) -> None:
        """End what runs, and leave what waits to whoever comes next."""
        self._leaving = True
        tasks = [*self._beside, *([self._work] if self._work is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_SECONDS)
        folder = self.choice.folder
        for command, message in self._later:
            if command is not None or folder is None:
                self._tell(f"not done: {message.text}")
            else:
                self._queue(folder, message)
        self._later.clear()
        if folder is not None and Inbox(folder.path).count():
            mark(self.choice.sessions, folder.id)
            self._tell("messages wait: the next turn takes them, or halo worker")

    def _queue(self, folder: SessionFolder, message: Incoming) -> None:
        """Put a message into the inbox: the turn that runs gives way to it when its tool is done."""
        soft = msgspec.structs.replace(message, interrupt="soft")
        try:
            Inbox(folder.path).put(soft, self.desk.now_ns())
            mark(self.choice.sessions, folder.id)
        except (HaloError, OSError) as error:
            self._tell(f"halo: {error}")
            return
        if not self._leaving:
            self._tell("it waits for the tool that runs, or for the end of the answer")
            self._engine.wake(folder.id)  # where only children run

    async def _work_on(self) -> None:
        """Do one after the other what was typed, and what came into the inbox meanwhile."""
        while self._later:
            command, message = self._later.pop(0)
            await self._guarded(self._do(command, message) if command else self._say(message))
            folder = self.choice.folder
            if folder is not None and not self._leaving and Inbox(folder.path).count():
                await self._guarded(self._run(self._rest(folder.id)))

    async def _guarded(self, doing: Coroutine[Any, Any, None]) -> None:
        try:
            await doing
        except HaloError as error:
            self._tell(f"halo: {error}")
        except OSError as error:
            self._tell(f"halo: {error.strerror or error}")

    async def _do(self, command: Command, message: Incoming) -> None:
        doing = perform(self.desk, command, self.choice, message, self._shown_here)
        done = await doing if command.spec.beside else await self._run(doing)
        if done is None:
            return  # it was broken off
        if not command.spec.beside:
            self.choice = done.choice
            self._named = self._named and command.name not in ("new", "reset")
        for notice in done.notices:
            self._tell(notice)
        if done.answer is not None:
            self._answered(done.answer)
        if done.message is not None:
            await self._reply(done.message)

    async def _say(self, message: Incoming) -> None:
        done = admit(self.desk, self.choice, message, named=self._named)
        self.choice = done.choice
        for notice in done.notices:
            self._tell(notice)
        await self._reply(message)

    async def _reply(self, message: Incoming) -> None:
        """Run the turn of a message, and whatever it sets going."""
        reason = "error"
        try:
            reply = await self._run(self._engine.run(self.choice, message))
            reason = reply.reason if reply is not None else "interrupted"
        except asyncio.CancelledError:
            reason = "interrupted"
            raise
        finally:
            self._over(reason)

    async def _run(self, turn: Coroutine[Any, Any, _T]) -> _T | None:
        """Run what `interrupt` may break off, and return what it came to; None if it was broken off."""
        running: asyncio.Task[_T] = asyncio.create_task(turn)
        self._turn = running
        try:
            return await running
        except asyncio.CancelledError:
            if self._leaving:
                raise
            return None
        finally:
            self._turn = None
            self.choice = self.choice._replace(notices=())

    async def _rest(self, session_id: str) -> None:
        """Run the turns of what waits."""
        try:
            self._engine.wake(session_id)
            await self._engine.settled()
        finally:
            await self._engine.close()

    def _shown(self, session: str, event: TurnEvent | Began) -> None:
        if session and self.choice.folder is None:
            folder = SessionFolder(self.choice.sessions, session)
            self.choice = self.choice._replace(folder=folder, relation=None)
        self._show(session, event)

    def _shown_here(self, event: TurnEvent | Began) -> None:
        self._shown(self.choice.folder.id if self.choice.folder is not None else "", event)
