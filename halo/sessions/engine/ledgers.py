"""What the sessions of one run may use together: children draw on the budget of their root."""

import time
from collections.abc import Callable

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
from halo.sessions.spending import spent_of


class Ledgers:
    """The ledgers of the runs that this process takes part in, by the root of each.

    What sessions of a run have used before, wherever they ran, is counted when its ledger is made; what they
    use here is added as it happens. `clock` is in seconds.
    """

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk, self._clock = desk, clock
        self._runs: dict[str, Ledger] = {}

    def of_turn(self, session: OpenSession, runtime: Runtime) -> Ledger:
        """Return the ledger of the next turn: within its session, within the run of its root."""
        created = session.conversation.created
        root = (created.root if created is not None else "") or session.folder.id
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
        found = self._runs.get(root)
        if found is None:
            found = self._runs[root] = self._opened(root, conversation, runtime)
        return found

    def _opened(self, root: str, conversation: Conversation | None, runtime: Runtime | None) -> Ledger:
        sessions = sessions_folder(self._desk.builder.places.halo)
        if conversation is None:
            conversation, runtime = _root_of(self._desk, SessionFolder(sessions, root))
        spent = spent_of(conversation)
        for header in headers_below(sessions, root):
            used = header.usage
            spent = Spent(
                spent.steps + header.calls,
                spent.tokens + used.prompt + used.output,
                spent.cost + header.cost,
                spent.seconds,
            )
        budget = runtime.budgets.run if runtime is not None else Budget()
        return Ledger("run", budget, self._clock, spent=spent)


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
