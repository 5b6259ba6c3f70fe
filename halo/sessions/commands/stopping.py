"""`/stop`: what runs in a session, and in all that it started, is broken off at once."""

import asyncio
from typing import NamedTuple

from halo.records.stops import FORMAT, Stop
from halo.sessions.choice import Choice
from halo.sessions.desk import Desk
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import timestamp
from halo.sessions.inbox.control import request_stop, wanted_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.index.lookup import headers_below
from halo.sessions.routing.finding import is_held

_EVERY = 0.05  # seconds between two looks
_PATIENCE = 5.0  # seconds for tools that take their time


class Stopped(NamedTuple):
    """How many sessions ran and were stopped, how many messages waited, which sessions go on all the same."""

    sessions: int
    kept: int = 0
    still: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Say it to the user."""
        said = {0: "nothing was running", 1: "1 session was stopped"}.get(
            self.sessions, f"{self.sessions} sessions were stopped"
        )
        if self.kept:
            waited = "1 message that waited is" if self.kept == 1 else f"{self.kept} messages that waited are"
            said += f"; {waited} kept in the history, unanswered"
        if self.still:
            said += f"; not yet ended: {', '.join(self.still)}"
        return said


async def stop_tree(desk: Desk, choice: Choice, by: str) -> Stopped:
    """Stop the chosen session and every one below it, whoever runs them, and wait for their ends."""
    if choice.folder is None:
        return Stopped(0)
    tree = [choice.folder, *_below(choice.sessions, choice.folder)]
    running = [folder for folder in tree if is_held(folder)]
    kept = Inbox(choice.folder.path).count()
    if not running and not kept:
        return Stopped(0)
    stop = Stop(FORMAT, timestamp(desk.now_ns()), by)
    for folder in {folder.id: folder for folder in (choice.folder, *running)}.values():
        request_stop(folder.path, stop)
    still = await _ends(running)
    if wanted_stop(choice.folder.path) is not None and not is_held(choice.folder):
        await _stop_here(desk, choice.folder.id)  # nobody ran it, or who did has died
    return Stopped(len(running) - len(still), kept, tuple(folder.id for folder in still))


def _below(sessions: str, top: SessionFolder) -> list[SessionFolder]:
    """Return the sessions that `top` started, those that they started, and so on."""
    created = top.read().created
    root = (created.root if created is not None else "") or top.id
    parents = {header.id: header.parent for header in headers_below(sessions, root)}
    found: list[SessionFolder] = []
    for session_id in parents:
        above, seen = session_id, set[str]()
        while above in parents and above not in seen:
            seen.add(above)
            above = parents[above]
            if above == top.id:
                found.append(SessionFolder(sessions, session_id))
    return found


async def _stop_here(desk: Desk, session_id: str) -> None:
    """Let this process take what waits for a session that nobody runs into its history."""
    from halo.sessions.engine.engine import Engine

    engine = Engine(desk, lambda _session, _event: None)
    engine.wake(session_id)
    await engine.settled()


async def _ends(running: list[SessionFolder]) -> list[SessionFolder]:
    """Wait until those that ran have let go; return those that have not."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE
    left = running
    while left:
        left = [f for f in left if wanted_stop(f.path) is not None and is_held(f)]
        if not left or loop.time() > until:
            break
        await asyncio.sleep(_EVERY)
    return left
