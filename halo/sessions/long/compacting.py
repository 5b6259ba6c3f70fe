"""Compaction around turns: when one is over and the window is full, and when the user asks for it.

The history is shortened on a copy; what becomes of it is in the log before anything goes on. Notes come
first, and what fails changes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from halo.errors import LogError
from halo.models.adapter import Notice
from halo.records.artifacts import Runtime
from halo.records.events import ContextShortened, UsageLost, UsageReported
from halo.records.session_events import CompactionFailed, MemoryFlushed
from halo.records.targets import AgentTarget
from halo.runner.budgets import Ledger
from halo.runner.context.context import Context, Shortening
from halo.runner.deadline import Over, check_bounds, within_time
from halo.runner.record import History
from halo.runner.reporting import charge
from halo.runner.slots import fill
from halo.runner.turn import Turn
from halo.sessions.derived import write_derived
from halo.sessions.desk import Desk
from halo.sessions.engine.ledgers import Ledgers
from halo.sessions.folder import OpenSession
from halo.sessions.inbox.attention import Attention, attended
from halo.sessions.long.memory import Memory
from halo.sessions.reply import Show
from halo.sessions.spending import price_of, today
from halo.sessions.turns import Prepared, prepare

LedgerOf = Callable[[OpenSession, Runtime], Ledger]

# Turns that ended so have been answered; after another end the next message is more urgent.
_ANSWERED = ("done", "max_tokens", "silent")


class Compacted(msgspec.Struct, frozen=True):
    """What a compaction came to; `problem` is why the history is as it was. Tokens are estimates."""

    session: str
    tokens_before: int
    tokens_after: int
    notes: MemoryFlushed | None = None
    problem: str = ""


class _Compaction:
    """One compaction of a session that is held; `history` is the copy that is shortened."""

    def __init__(
        self, desk: Desk, session: OpenSession, prepared: Prepared, show: Show, ledger_of: LedgerOf
    ) -> None:
        self._desk, self._session, self._show = desk, session, show
        equipment, conversation = prepared.equipment, session.conversation
        artifact = equipment.artifact
        self.history = conversation.record(artifact.id)
        # Filled as in the last turn, so that what it has in the cache is read from there.
        system = fill(artifact, prepared.values.at(conversation.began or conversation.created_at))
        self.context = Context(
            artifact.runtime,
            Turn(artifact, system, self.history).prefix,
            prepared.adapter,
            flush=Memory(desk, conversation.standing, equipment.access),
        )
        self._ledger = ledger_of(session, artifact.runtime)
        self._price = price_of(desk.tree, artifact.runtime, today(desk.now_ns()))
        self.done: list[Shortening] = []

    async def run(self, events: AsyncGenerator[Shortening, None]) -> None:
        """Record what happens. Raises `Over` when a budget is used up."""
        check_bounds(self._ledger)
        async with aclosing(within_time(events, self._ledger)) as shortening:
            async for event in shortening:
                told = event
                if isinstance(told, (UsageReported, UsageLost)):
                    told = charge(self._ledger, self._price, told)
                if not isinstance(told, Notice):
                    self._session.append(told)
                self.done.append(told)
                self._show(told)


async def compact_after(
    desk: Desk, session: OpenSession, prepared: Prepared, show: Show, ledger_of: LedgerOf
) -> None:
    """Shorten the history of a session whose turn is over, if it leaves too little room for the next one.

    A message that breaks a turn off, and a wish to stop, break this off, too. Where it could not be done, it
    is tried again when the history has grown.
    """
    conversation = session.conversation
    if not session.sound or conversation.ended is None or conversation.ended.reason not in _ANSWERED:
        return
    compaction = _Compaction(desk, session, prepared, show, ledger_of)
    tokens = compaction.context.after_turn(compaction.history)
    failed_at = conversation.standing.failed_at
    if not tokens or (failed_at and tokens < failed_at + compaction.context.step):
        return
    attention = Attention(session.folder, conversation.standing.taken)
    try:
        await attended(
            compaction.run(compaction.context.shorten(compaction.history, "turn")),
            attention,
        )
    except Over as over:
        show(Notice(f"note: the conversation is not compacted: {over.reached.bound} is reached"))
    except asyncio.CancelledError:
        if not attention.ended_it:
            raise


async def compact(desk: Desk, session: OpenSession, instructions: str, show: Show) -> Compacted:
    """Put a summary in the place of the history of a session that is held, because the user wants it.

    `instructions` are the user's words about the summary. Whoever holds a session runs no turn in it: it
    cannot be opened for this meanwhile (`BusyError`). Raises what a turn raises that cannot start.
    """
    setting = session.conversation.standing.settings.get
    prepared = prepare(
        desk,
        target_of(session),
        (),
        show,
        frozen=False,
        waited=frozenset(),
        opened=desk.adapter,
        thinking=setting("thinking", ""),
        pin=setting("pin", ""),
    )
    try:
        compaction = _Compaction(desk, session, prepared, show, Ledgers(desk).of_turn)
        problem = ""
        try:
            await compaction.run(compaction.context.compact(compaction.history, instructions.strip()))
        except Over as over:
            problem = f"{over.reached.bound} is reached"
        return _result(session, compaction.history, compaction.done, problem)
    finally:
        await prepared.adapter.close()
        write_derived(session)


def target_of(session: OpenSession) -> AgentTarget:
    """Return whom a session is with, by the model that is set for it."""
    conversation = session.conversation
    if conversation.created is None:
        raise LogError(
            "its first event, which says whom the session is with, is damaged", file=session.folder.events
        )
    profile = conversation.standing.settings.get("model", "")
    return msgspec.structs.replace(conversation.created.target.target(), profile=profile)


def _result(session: OpenSession, history: History, done: list[Shortening], problem: str) -> Compacted:
    notes = next((event for event in done if isinstance(event, MemoryFlushed)), None)
    for event in done:
        if isinstance(event, ContextShortened):
            return Compacted(session.folder.id, event.tokens_before, event.tokens_after, notes)
        if isinstance(event, CompactionFailed):
            problem = event.problem
    tokens = sum(history.weights)
    return Compacted(
        session.folder.id, tokens, tokens, notes, problem or "there is nothing that could be summed up"
    )
