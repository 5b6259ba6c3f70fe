"""`halo worker`: takes what waits for the sessions of a workspace."""

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.sessions.engine.engine import ShowIn
    from halo.sessions.engine.worker import Worker


@click.command("worker")
@workspace_option
@click.option("--once", is_flag=True, help="Take what waits now, and what comes of it; then end.")
@click.option("-s", "--session", metavar="SESSION", multiple=True, help="With --once: only this one.")
def command(*, workspace: str | None, once: bool, session: tuple[str, ...]) -> int:
    """Run the turns of all sessions of the workspace for which messages wait, until Ctrl-C or SIGTERM.

    Then turns that run come to their end, and no other begins; a second signal breaks them off. Several
    workers may run at once. Sessions that were begun on another machine are left alone. One line for each
    turn goes to stdout.
    """
    if session and not once:
        raise UsageError("-s names what --once shall take", hint="halo worker --once -s ID")
    import asyncio

    from halo.models.catalogue import cache_dir
    from halo.sessions.desk import Desk
    from halo.sessions.engine.engine import Engine
    from halo.sessions.engine.worker import Worker
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.naming import named_session
    from halo.tools.threads import ToolThreads

    builder = open_builder(workspace)
    places = builder.places
    sessions = sessions_folder(places.halo)
    chosen = tuple(named_session(sessions, places.home, name).id for name in session)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)

    async def work() -> int:
        asyncio.get_running_loop().set_default_executor(ToolThreads())
        worker = Worker(Engine(desk, _lines()), places.home, _tell, time.monotonic)
        return await _until_stopped(worker, once=once, sessions=chosen)

    return asyncio.run(work())


async def _until_stopped(worker: "Worker", *, once: bool, sessions: tuple[str, ...]) -> int:
    import asyncio

    stop = asyncio.Event()
    working = asyncio.ensure_future(worker.drain(sessions) if once else worker.run(stop))

    def signalled() -> None:
        if stop.is_set() or once:
            working.cancel()
            return
        stop.set()
        _tell("stopping when the turns that run are over; once more breaks them off")

    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM"):
        if os.name != "nt":
            loop.add_signal_handler(getattr(signal, name), signalled)
    try:
        await working
    except asyncio.CancelledError:
        _tell("turns were broken off; their sessions go on where they are")
        return 130
    finally:
        await worker.close()
    return 0


def _lines() -> "ShowIn":
    """Make what prints a line for each turn that ends."""
    from halo.models.adapter import Notice
    from halo.records.events import TurnEnded
    from halo.sessions.reply import Began

    turns: dict[str, Began] = {}

    def show(session: str, event: object) -> None:
        if isinstance(event, Began):
            turns[session] = event
        elif isinstance(event, TurnEnded) and session in turns:
            began = turns.pop(session)
            more = f"   {event.error.splitlines()[0]}" if event.error else ""
            click.echo(f"{session}   {began.agent}   turn {began.turn}   {event.reason}{more}")
        elif isinstance(event, Notice):
            _tell(f"{session}: {event.text}" if session else event.text)

    return show


def _tell(text: str) -> None:
    from halo.files.visible import shown

    for line in text.splitlines():
        click.echo(shown(line), err=True)
