"""A turn in a session: from a user's message to the recorded answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime

import msgspec

from halo.errors import HaloError, LogError
from halo.models.adapter import Adapter, Notice, Retrying, TextDelta, ThinkingDelta
from halo.records.artifacts import Artifact
from halo.records.events import (
    ContextShortened,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from halo.records.messages import Message, Text
from halo.records.targets import AgentTarget
from halo.records.usage import Usage
from halo.runner.budgets import Ledger
from halo.runner.turn import TurnEvent, run_turn
from halo.sessions.cached import earlier_call
from halo.sessions.choice import Choice
from halo.sessions.derived import write_derived
from halo.sessions.desk import Desk, Equipment, equip, gather, lay_out
from halo.sessions.folder import OpenSession
from halo.sessions.said import Said
from halo.sessions.servers import turn_servers
from halo.sessions.spending import price_of, session_ledger, today
from halo.sessions.status import figures_of, status_text
from halo.sessions.values import Values
from halo.tools.threads import ToolThreads

FORMAT = 1


class Began(msgspec.Struct, frozen=True):
    """A turn begins: which one, and what it runs from. `format` is that of the lines that follow."""

    format: int
    session: str
    turn: int
    agent: str
    artifact: str
    fingerprint: str


# Is told what happens, when it is on disk; for the eyes alone, so what it raises breaks the turn off.
Show = Callable[[TurnEvent | Began], None]


class Reply(msgspec.Struct, frozen=True):
    """What a turn came to, as `halo run --format json` prints it; `format` is that of this record.

    `text` is all text of the turn; `usage` the sum of its calls; `reason` that of its `turn.ended`.
    """

    format: int
    session: str
    turn: int
    agent: str
    artifact: str
    fingerprint: str
    model: str
    text: str
    reason: str
    usage: Usage
    restored: int = 0


def run_talk(desk: Desk, choice: Choice, message: str, show: Show, *, frozen: bool) -> Reply:
    """Run `talk` in an event loop of its own.

    Ctrl-C ends the turn and raises KeyboardInterrupt, without waiting for a tool that goes on: its thread
    ends by itself, or with the process.
    """
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ToolThreads())
        return runner.run(talk(desk, choice, message, show, frozen=frozen))


async def talk(desk: Desk, choice: Choice, message: str, show: Show, *, frozen: bool) -> Reply:
    """Run one turn in the chosen session, with its target. Every record is on disk before the turn goes on.

    Artifacts, slot values and model come first: what cannot start leaves no trace in a session. Cancelling
    ends the turn as `interrupted`, with the text so far; errors end it as `error` and are raised again.
    """
    for notice in choice.notices:
        show(Notice(notice))
    equipment, said = equip(desk, choice.target, message, frozen=frozen)
    values = gather(desk, equipment)
    for notice in (*said.notices, *(f"warning: {warning}" for warning in values.warnings)):
        show(Notice(notice))
    adapter = desk.adapter(equipment.artifact, choice.target)
    try:
        with choice.open(desk.now_ns) as session:
            try:
                _tell_damage(session, show)
                return await _turn(desk, session, equipment, adapter, said, values, show)
            finally:
                _derive(session, show)
    finally:
        await adapter.close()


def _tell_damage(session: OpenSession, show: Show) -> None:
    damaged = session.conversation.damaged
    if damaged:
        more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        what = "; ".join(damaged[:3])
        show(Notice(f"warning: session {session.folder.id} is damaged and goes on without: {what}{more}"))


def _derive(session: OpenSession, show: Show) -> None:
    """Write the derived files. They can be made again at any time, so a turn never fails because of them."""
    if not session.sound:
        return  # what the log holds is unknown: the next one who opens it derives them
    try:
        write_derived(session.folder, session.conversation)
    except (OSError, HaloError) as error:
        _tell(show, f"warning: session.json and transcript.md are not up to date: {error}")


def _tell(show: Show, text: str) -> None:
    """Show a notice where another error may be on its way, which must stay the one that is raised."""
    with suppress(OSError):
        show(Notice(text))


async def _turn(
    desk: Desk,
    session: OpenSession,
    equipment: Equipment,
    adapter: Adapter,
    said: Said,
    gathered: Values,
    show: Show,
) -> Reply:
    artifact = equipment.artifact
    earlier = earlier_call(session.conversation, artifact)
    started = session.append(
        TurnStarted(
            artifact.id,
            artifact.manifest.fingerprint,
            skills={skill: a.id for skill, a in equipment.skills.items()},
            scopes=said.scopes,
            session=session.conversation.created,
        ),
        turn=session.conversation.turn + 1,
    )
    values = gathered.at(started.ts)
    session.append(said.message(values))
    progress = _Progress()
    try:
        show(_began(session, artifact))
        history = session.conversation.record(artifact.id)
        servers = turn_servers(desk, artifact, equipment.grants, lambda text: _tell(show, text))
        ledger = session_ledger(session.conversation, equipment.runtime)
        status = _status(desk, session, equipment, ledger)
        turn, toolbox, remarks = lay_out(desk, equipment, history, values, servers.tools, status)
        for remark in remarks:
            show(Notice(remark))
        watched = desk.watched(adapter, artifact, earlier)
        price = price_of(desk.tree, turn.runtime, today(desk.now_ns()))
        running = run_turn(turn, watched, toolbox, ledger=ledger, price=price)
        async with aclosing(servers), aclosing(running) as events:
            await _keep(session, events, progress, show)
    except (asyncio.CancelledError, KeyboardInterrupt):
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


def _began(session: OpenSession, artifact: Artifact) -> Began:
    target = artifact.manifest.target
    agent = target.agent if isinstance(target, AgentTarget) else ""
    turn = session.conversation.turn
    return Began(FORMAT, session.folder.id, turn, agent, artifact.id, artifact.manifest.fingerprint)


class _Progress:
    """What a turn came to so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.unrecorded: list[str] = []
        self.usage = Usage()
        self.model = ""
        self.restored = 0
        self.reason = ""

    def reply(self, session: OpenSession, artifact: Artifact) -> Reply:
        target = artifact.manifest.target
        return Reply(
            format=FORMAT,
            session=session.folder.id,
            turn=session.conversation.turn,
            agent=target.agent if isinstance(target, AgentTarget) else "",
            artifact=artifact.id,
            fingerprint=artifact.manifest.fingerprint,
            model=self.model,
            text="".join(self.text),
            reason=self.reason,
            usage=self.usage,
            restored=self.restored,
        )


async def _keep(
    session: OpenSession, events: AsyncIterator[TurnEvent], progress: _Progress, show: Show
) -> None:
    """Record what is a record, show what is for the user."""
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
            case ToolResultAdded() | ContextShortened() | Repaired():
                session.append(event)
            case UsageReported():
                session.append(event)
                progress.usage += event.usage
                progress.model = event.model
                progress.restored = max(progress.restored, event.restored)
            case TurnEnded():
                session.append(event)
                progress.reason = event.reason
        show(event)


def _break_off(session: OpenSession, progress: _Progress, ended: TurnEnded, show: Show) -> None:
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
        session.answer_open_calls()
        session.append(ended)
    except LogError as error:
        _tell(show, f"warning: the end of the turn is not recorded: {error}")
