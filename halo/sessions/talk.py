"""What a user says in a session, from one process: the turn, and all that it sets going."""

import asyncio
import secrets
from collections.abc import Callable

import msgspec

from halo.models.adapter import Notice
from halo.records.events import TurnEnded
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.targets import Access
from halo.runner.turn import TurnEvent
from halo.sessions.choice import Choice
from halo.sessions.commands.answers import Answer
from halo.sessions.commands.doing import enter
from halo.sessions.desk import Desk
from halo.sessions.engine.engine import Engine
from halo.sessions.ids import timestamp
from halo.sessions.reply import Began, Reply, Show
from halo.tools.threads import ToolThreads

OWNER = Sender("user", owner=True)  # whoever sits at this machine


def run_talk(desk: Desk, choice: Choice, message: str, show: Show, *, frozen: bool) -> Reply:
    """Run `talk` in an event loop of its own.

    Ctrl-C ends the turn and raises KeyboardInterrupt, without waiting for a tool that goes on: its thread
    ends by itself, or with the process.
    """
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ToolThreads())
        return runner.run(talk(desk, choice, message, show, frozen=frozen))


async def talk(desk: Desk, choice: Choice, message: str, show: Show, *, frozen: bool) -> Reply:
    """Say `message` in the chosen session, as its user, and return the last reply.

    Artifacts, slot values and model come first: what cannot start leaves no trace in a session. Cancelling
    ends the turn as `interrupted`, with the text so far; errors end it as `error` and are raised again.
    """
    engine = Engine(desk, Foreground(show, _id_of(choice)), frozen=frozen)
    return await engine.run(choice, typed(message, desk.now_ns()))


class Foreground:
    """Shows what happens in the session that a user talks in, and of others only when they begin and end.

    `own` names that session; left out, it is the first one of which something is shown, as of a new one, that
    has started no others.
    """

    def __init__(self, show: Show, own: Callable[[], str] | None = None) -> None:
        self._show, self._named = show, own
        self._first = ""

    def __call__(self, session: str, event: TurnEvent | Began) -> None:
        """Show an event of a session."""
        self._first = self._first or session
        own = self._named() if self._named is not None else self._first
        if session in ("", own) or isinstance(event, Notice):
            self._show(event)
        elif isinstance(event, Began):
            self._show(Notice(f"session {session}: {event.agent} begins turn {event.turn}"))
        elif isinstance(event, TurnEnded):
            more = f": {event.error}" if event.error else ""
            self._show(Notice(f"session {session}: {event.reason}{more}"))


def _id_of(choice: Choice) -> Callable[[], str] | None:
    """Return what names the chosen session; None for a new one."""
    folder = choice.folder
    return None if folder is None else lambda: folder.id


def run_typed(
    desk: Desk, choice: Choice, message: Incoming, show: Show, *, frozen: bool, named: bool
) -> Reply | Answer:
    """Run `converse` in an event loop of its own; Ctrl-C as in `run_talk`."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ToolThreads())
        return runner.run(converse(desk, choice, message, show, frozen=frozen, named=named))


async def converse(
    desk: Desk, choice: Choice, message: Incoming, show: Show, *, frozen: bool, named: bool
) -> Reply | Answer:
    """Take in what a user typed: a command is done, all else is said. `named` as in `admit`."""
    done = await enter(desk, choice, message, show, named=named)
    for notice in (*choice.notices, *done.notices) if done.message is None else done.notices:
        show(Notice(notice))
    if done.message is None:
        assert done.answer is not None  # noqa: S101  # a command has one or the other
        return done.answer
    engine = Engine(desk, Foreground(show, _id_of(done.choice)), frozen=frozen)
    return await engine.run(done.choice, done.message)


def typed(text: str, now_ns: int, *, access: Access = "full") -> Incoming:
    """Make a message of what the owner of a session typed."""
    sender = msgspec.structs.replace(OWNER, access=access)
    return Incoming(FORMAT, secrets.token_hex(16), timestamp(now_ns), text, sender)
