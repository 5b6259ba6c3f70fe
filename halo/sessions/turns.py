"""One turn in a session that this process holds: from messages to the recorded answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from halo.errors import HaloError, LogError
from halo.models.adapter import Adapter, Notice, Retrying, TextDelta, ThinkingDelta
from halo.records.artifacts import Artifact, Runtime
from halo.records.events import (
    ContextShortened,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageLost,
    UsageReported,
)
from halo.records.incoming import Incoming
from halo.records.messages import Message, Text
from halo.records.session_events import CompactionFailed, MemoryFlushed
from halo.records.targets import AgentTarget
from halo.runner.budgets import Ledger
from halo.runner.turn import TurnEvent, run_turn
from halo.sessions.desk import Desk, Equipment, equip, gather, lay_out
from halo.sessions.folder import INTERRUPTED, OpenSession
from halo.sessions.inbox.attention import Attention, attended
from halo.sessions.long.before import look_back
from halo.sessions.long.memory import Memory
from halo.sessions.reply import Began, Progress, Reply, Show
from halo.sessions.said import Said, message_of
from halo.sessions.servers import turn_servers
from halo.sessions.spending import price_of, today
from halo.sessions.status import figures_of, status_text
from halo.sessions.thinking import with_thinking
from halo.sessions.values import Values
from halo.tools.base import Tool

NOT_BEGUN = "This call was not run: a new message came first. Make it again if it is still wanted."


class Prepared(NamedTuple):
    """All that a turn needs beside its session: what cannot start leaves no trace in one."""

    messages: tuple[Incoming, ...]
    equipment: Equipment
    said: tuple[Said, ...]
    values: Values
    adapter: Adapter


class Aside(NamedTuple):
    """What whoever runs several sessions gives a turn of one of them.

    `ledger` makes the ledger of the turn; `tools` those tools that reach other sessions, by their names.
    `place` is held while the turn of an artifact runs: it waits for its place among the turns of its run.
    """

    ledger: Callable[[OpenSession, Runtime], Ledger]
    tools: Callable[[Equipment], Mapping[str, Tool]]
    place: Callable[[Artifact], AbstractAsyncContextManager[None]]


def prepare(
    desk: Desk,
    target: AgentTarget,
    messages: Sequence[Incoming],
    show: Show,
    *,
    frozen: bool,
    waited: frozenset[str],
    opened: Callable[[Artifact, AgentTarget], Adapter],
    thinking: str = "",
    pin: str = "",
) -> Prepared:
    """Get artifacts, slot values and the model, by `opened`. `waited` as in `equip`.

    `thinking` is the level that is set for the session, `pin` the artifact that it is pinned to.
    """
    equipment, said, notices = equip(desk, target, messages, frozen=frozen, waited=waited, pin=pin)
    artifact = with_thinking(equipment.artifact, thinking)
    equipment = msgspec.structs.replace(equipment, artifact=artifact)
    values = gather(desk, equipment)
    for notice in (*notices, *(f"warning: {warning}" for warning in values.warnings)):
        show(Notice(notice))
    adapter = opened(equipment.artifact, target)
    return Prepared(tuple(messages), equipment, said, values, adapter)


async def take_turn(
    desk: Desk,
    session: OpenSession,
    prepared: Prepared,
    show: Show,
    *,
    aside: Aside,
    recorded: Callable[[], None],
    waited: frozenset[str] = frozenset(),
) -> Reply:
    """Run one turn. Every record is on disk before it goes on; `recorded` is called when its messages are.

    `waited` are the files of messages that waited before and are for a later turn: they interrupt nothing.

    Cancelling ends the turn as `interrupted`, with the text so far; errors end it as `error` and are raised
    again. A message that interrupts it, and a wish to stop, end it as `gave_way` and `stopped`.
    """
    equipment = prepared.equipment
    artifact = equipment.artifact
    before = look_back(desk, session.conversation, artifact)
    started = session.append(
        TurnStarted(
            artifact.id,
            artifact.manifest.fingerprint,
            skills={skill: a.id for skill, a in equipment.skills.items()},
            scopes={scope: a for said in prepared.said for scope, a in said.scopes.items()},
            session=session.conversation.created,
        ),
        turn=session.conversation.turn + 1,
    )
    if before.changed is not None:
        session.append(before.changed)
    values = prepared.values.at(started.ts)
    session.append(message_of(prepared.messages, prepared.said, values))
    recorded()
    progress = Progress()
    attention = Attention(session.folder, session.conversation.standing.taken, waited)

    async def run() -> None:
        show(Began.of(session, artifact))
        history = session.conversation.record(artifact.id)
        servers = turn_servers(desk, artifact, equipment.grants, lambda text: tell(show, text))
        ledger = aside.ledger(session, artifact.runtime)
        status = _status(desk, session, equipment, ledger)
        tools = {**servers.tools, **aside.tools(equipment)}
        turn, toolbox, remarks = lay_out(desk, equipment, history, values, tools, status)
        for remark in (*remarks, *before.remarks):
            show(Notice(remark))
        memory = Memory(desk, session.conversation.standing, equipment.access)
        turn = turn._replace(cold=before.cold, flush=memory)
        watched = desk.watched(prepared.adapter, artifact, before.earlier)
        price = price_of(desk.tree, artifact.runtime, today(desk.now_ns()))
        running = run_turn(turn, watched, toolbox, ledger=ledger, price=price)
        async with aclosing(servers), aclosing(running) as events:
            await _keep(session, events, progress, attention, show)

    try:
        await attended(run(), attention)
    except (asyncio.CancelledError, KeyboardInterrupt):
        if attention.ended_it:
            _break_off(session, progress, TurnEnded("stopped" if attention.stopped else "gave_way"), show)
        else:
            _break_off(session, progress, TurnEnded("interrupted"), show)
            raise
    except HaloError as error:
        _break_off(session, progress, TurnEnded("error", str(error)), show)
        raise
    except Exception as error:
        _break_off(session, progress, TurnEnded("error", f"{type(error).__name__}: {error}"), show)
        raise
    return progress.reply(session, artifact)


def _status(desk: Desk, session: OpenSession, equipment: Equipment, ledger: Ledger) -> Callable[[], str]:
    """Return what writes the figures of the session, as they are when the model asks for them."""

    def status() -> str:
        figures = figures_of(session.conversation, equipment.runtime, ledger)
        return status_text(figures, datetime.fromtimestamp(desk.now_ns() / 1e9, UTC), desk.zone_name())

    return status


async def _keep(
    session: OpenSession,
    events: AsyncIterator[TurnEvent],
    progress: Progress,
    attention: Attention,
    show: Show,
) -> None:
    """Record what is a record, show what is for the user; give way to a message when a tool is done."""
    async for event in events:
        match event:
            case TextDelta():
                progress.unrecorded.append(event.text)
            case ThinkingDelta() | Notice():
                pass
            case Retrying():
                progress.unrecorded.clear()
            case MessageAdded():
                session.append(event)
                progress.text.append(event.message.text)
                progress.unrecorded.clear()
            case ToolResultAdded() | ContextShortened() | CompactionFailed() | MemoryFlushed() | Repaired():
                session.append(event)
            case UsageReported():
                session.append(event)
                progress.add(event)
            case UsageLost():
                session.append(event)
                progress.usage += event.usage
            case TurnEnded():
                session.append(event)
                progress.reason = event.reason
        show(event)
        if isinstance(event, ToolResultAdded) and attention.soft:
            _end(session, progress, TurnEnded("gave_way"), show, NOT_BEGUN)
            return


def _break_off(session: OpenSession, progress: Progress, ended: TurnEnded, show: Show) -> None:
    """Record the text that the user has already seen, answer open calls, and end the turn.

    Runs while an error is on its way, and adds none: a log that takes nothing more is mended by the next one
    who opens the session. A turn that was over before, when its end was shown, stays as it ended.
    """
    if not session.conversation.open_turn:
        return
    try:
        if progress.unrecorded:
            # Half a character (a lone surrogate) may be the very reason why the turn breaks off.
            text = "".join(progress.unrecorded).encode("utf-8", "replace").decode()
            session.append(MessageAdded(Message("assistant", (Text(text),)), partial=True))
            progress.text.append(text)
        _end(session, progress, ended, None, INTERRUPTED)
    except LogError as error:
        tell(show, f"warning: the end of the turn is not recorded: {error}")


def _end(
    session: OpenSession, progress: Progress, ended: TurnEnded, show: Show | None, unanswered: str
) -> None:
    session.answer_open_calls(unanswered)
    session.append(ended)
    progress.reason = ended.reason
    if show is not None:
        show(ended)


def tell(show: Show, text: str) -> None:
    """Show a notice where another error may be on its way, which must stay the one that is raised."""
    with suppress(OSError):
        show(Notice(text))
