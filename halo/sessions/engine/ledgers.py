"""What the sessions of one run may use together: children draw on the budget of their root."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from halo.errors import HaloError
from halo.records.artifacts import Runtime
from halo.records.budgets import Budget
from halo.runner.budgets import Ledger, Spent, turn_ledger
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.index.lookup import headers_below
from halo.sessions.spending import spent_of, used_of


class Ledgers:
    """The ledgers of the runs that this process takes part in, by the root of each.

    What sessions of a run use here is added as it happens; what they use in other processes is counted from
    their logs when a turn begins. A ledger lasts while a session of the run is open here, so that the time
    between turns costs nothing. `clock` is in seconds.
    """

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._runs: dict[str, Ledger] = {}
        self._open: Counter[str] = Counter()

    @contextmanager
    def open(self, session: OpenSession) -> Iterator[None]:
        """Keep the ledger of the run of `session` meanwhile."""
        root = _root(session)
        self._open[root] += 1
        try:
            yield
        finally:
            self._open[root] -= 1
            if not self._open[root]:
                self._runs.pop(root, None)

    def of_turn(self, session: OpenSession, runtime: Runtime) -> Ledger:
        """Return the ledger of the next turn: within its session, within the run of its root."""
        root = _root(session)
        if root == session.folder.id:
            return turn_ledger(runtime.budgets, self._clock, self._run(root, session.conversation, runtime))
        run = self._run(root, None, None)
        spent = spent_of(session.conversation)
        own = Ledger("run", runtime.budgets.run, self._clock, spent=spent, parent=run)
        seconds = session.conversation.standing.settings.get("seconds", "")
        if seconds:
            limit = Budget(seconds=msgspec.json.decode(seconds.encode(), type=float))
            # Time counts in turns: what a child waits for costs it nothing.
            own = Ledger("session", limit, self._clock, spent=Spent(seconds=spent.seconds), parent=own)
        return turn_ledger(runtime.budgets, self._clock, own)

    def _run(self, root: str, conversation: Conversation | None, runtime: Runtime | None) -> Ledger:
        sessions = sessions_folder(self._desk.builder.places.halo)
        if conversation is None:
            conversation, runtime = _root_of(self._desk, SessionFolder(sessions, root))
        spent = self._logged(root, conversation)
        found = self._runs.get(root)
        if found is None:
            budget = runtime.budgets.run if runtime is not None else Budget()
            found = self._runs[root] = Ledger("run", budget, self._clock, spent=spent)
        found.catch_up(spent)
        return found

    def _logged(self, root: str, conversation: Conversation) -> Spent:
        """Return what all sessions of a run have used by their logs, the one at its top by `conversation`."""
        sessions = sessions_folder(self._desk.builder.places.halo)
        spent = spent_of(conversation)
        used = [
            *((child.calls, child.tokens, child.cost) for child in conversation.standing.removed.values()),
            *(used_of(header) for header in headers_below(sessions, root)),
        ]
        return Spent(
            spent.steps + sum(calls for calls, _, _ in used),
            spent.tokens + sum(tokens for _, tokens, _ in used),
            spent.cost + sum(cost for _, _, cost in used),
            spent.seconds,
        )


def _root(session: OpenSession) -> str:
    created = session.conversation.created
    return (created.root if created is not None else "") or session.folder.id


def _root_of(desk: Desk, folder: SessionFolder) -> tuple[Conversation, Runtime | None]:
    """Return the conversation at the top of a run, and what its last turn ran with.

    One that is gone, or cannot be read, bounds nothing: its children have budgets of their own.
    """
    try:
        conversation = folder.read()
        started = conversation.started
        artifact = desk.builder.store.load(started.artifact) if started is not None else None
    except (HaloError, OSError):
        return Conversation(), None
    return conversation, artifact.runtime if artifact is not None else None
