"""The tools of delegation: an agent with a team starts sessions, talks to them, and sees how they stand.

All results are JSON. What cannot be done is an error of the call; what happened to a message says two things
apart: whether it was delivered, and whether it was answered.
"""

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from halo.errors import BusyError, HaloError
from halo.files.digests import sha256
from halo.records.headers import Header
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.records.session_events import AnswerTaken
from halo.records.stops import FORMAT as STOP_FORMAT
from halo.records.stops import Stop
from halo.records.targets import AgentTarget
from halo.sessions.delegation.answers import Outcome, outcome_of
from halo.sessions.delegation.reports import answer_id, final_text, report_id, stats_of, status_of
from halo.sessions.delegation.rows import active, kind_of, last_messages, row_of
from halo.sessions.delegation.seeing import Seeing
from halo.sessions.delegation.spawning import Task, checked_directory, checked_model, start_child
from halo.sessions.desk import Desk, Equipment
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.ids import month_of, timestamp
from halo.sessions.inbox.control import request_stop
from halo.sessions.inbox.folder import Inbox
from halo.tools.base import Surroundings, Tool, ToolFailure, brief
from halo.workspace.settings.delegation import DelegationSettings

_WAIT = 30  # seconds for an answer, unless the call says otherwise
_LONGEST_WAIT = 3_600


class Runner(Protocol):
    """What the tools ask of whoever runs the sessions of this process."""

    desk: Desk
    sessions: str
    settings: DelegationSettings

    @property
    def running(self) -> frozenset[str]:
        """The sessions that run here now."""

    def wake(self, session_id: str) -> None:
        """Let a session take what waits for it."""

    async def answer(self, session_id: str, message_id: str, seconds: float) -> None:
        """Wait for the end of the turn that takes a message, for so many seconds at most."""


# Within it other turns may take the place of one that waits.
Lent = Callable[[], AbstractAsyncContextManager[None]]


class Delegation:
    """The tools for one turn of `session`, which `runner` runs; while it waits its place is `lent`."""

    def __init__(self, runner: Runner, session: OpenSession, lent: Lent) -> None:
        self._runner, self._session, self._lent = runner, session, lent

    def tools(self, equipment: Equipment) -> Mapping[str, Tool]:
        """Return the tools by name; none for an agent without a team."""
        if not equipment.artifact.manifest.team:
            return MappingProxyType({})
        call = _Calls(self._runner, self._session, equipment, self._lent)
        return {
            "start_session": call.start,
            "session_list": call.list,
            "session_history": call.history,
            "query_session": call.query,
            "interrupt_session": call.interrupt,
            "stop_session": call.stop,
            "archive_session": call.archive,
            "get_session_output": call.output,
            "query_agent": call.agent,
        }


class _Calls:
    def __init__(self, runner: Runner, session: OpenSession, equipment: Equipment, lent: Lent) -> None:
        self._runner, self._session, self._equipment, self._lent = runner, session, equipment, lent
        self._desk = runner.desk
        self._seeing = Seeing(
            runner.sessions, runner.desk.builder.places.home, session, equipment.access, runner.settings
        )

    @property
    def _team(self) -> tuple[str, ...]:
        return tuple(member.id for member in self._equipment.artifact.manifest.team)

    @property
    def _agent(self) -> str:
        target = self._equipment.artifact.manifest.target
        return target.agent if isinstance(target, AgentTarget) else ""

    async def start(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Start a session with an agent of the team; it never waits."""
        agent = arguments["agent_id"]
        if agent not in self._team:
            raise ToolFailure(f"{brief(agent)} is not in your team; it has {', '.join(self._team)}")
        created = self._session.conversation.created
        depth = created.depth if created is not None else 0
        if depth >= self._runner.settings.depth:
            raise ToolFailure(
                f"this session may start no others: it stands {depth} below the first one, and "
                f"general.session.delegation.depth is {self._runner.settings.depth}"
            )
        if not arguments["message"].strip():
            raise ToolFailure("the message is empty; it must hold the whole task")
        text = "\n\n".join(part for part in (arguments.get("context", ""), arguments["message"]) if part)
        task = Task(
            agent,
            text,
            " ".join(arguments.get("title", "").split())[:200],
            checked_directory(self._desk, arguments.get("working_dir") or "."),
            checked_model(self._desk, arguments["model"], agent) if arguments.get("model") else "",
            float(arguments.get("seconds", 0)),
            arguments.get("cleanup", "keep"),
        )
        child = start_child(self._desk, self._session, task, around.access)
        self._runner.wake(child)
        return _json({"status": "accepted", "session_id": child, "agent_id": agent})

    async def list(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """List the sessions that may be seen from here."""
        del around
        headers = list(self._seeing.headers())
        now = datetime.fromtimestamp(self._desk.now_ns() / 1e9, UTC)
        if "active_minutes" in arguments:
            headers = [*active(headers, now - timedelta(minutes=arguments["active_minutes"]))]
        if arguments.get("kinds"):
            headers = [header for header in headers if kind_of(header) in arguments["kinds"]]
        if not arguments.get("archived"):
            headers = [header for header in headers if not self._seeing.archived(header, now)]
        headers.sort(key=lambda header: (header.updated_at, header.id), reverse=True)
        shown = headers[: min(arguments.get("limit", 50), 200)]
        rows = [self._row(header, arguments, now) for header in shown]
        return _json({"sessions": rows, "count": len(rows), "more": len(headers) - len(rows)})

    def _row(self, header: Header, arguments: Mapping[str, Any], now: datetime) -> Any:
        path = f".halo/sessions/{month_of(header.id)}/{header.id}"
        row = row_of(
            header,
            running=self._seeing.runs(header, self._runner.running),
            archived=self._seeing.archived(header, now),
            path=path,
        )
        many = arguments.get("messages", 0)
        if many:
            folder = SessionFolder(self._runner.sessions, header.id)
            messages = last_messages(folder, many, tools=bool(arguments.get("tools")), whole=False)
            row = msgspec.structs.replace(row, messages=messages)
        return row

    async def history(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Return the last messages of a session."""
        del around
        folder = self._seeing.find(arguments["session_id"])
        limit = min(arguments.get("limit", 50), 500)
        messages = last_messages(folder, limit, tools=bool(arguments.get("tools")), whole=True)
        return _json({"session_id": folder.id, "messages": messages})

    async def query(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Send a message, which a running turn takes after its present tool."""
        return await self._send(arguments, around, "soft")

    async def interrupt(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Send a message that breaks a running turn off."""
        return await self._send(arguments, around, "hard")

    async def _send(self, arguments: Mapping[str, Any], around: Surroundings, interrupt: str) -> str:
        folder = self._seeing.find(arguments["session_id"])
        if folder.id == self._session.folder.id:
            raise ToolFailure("this is your own session; just go on")
        if not arguments["message"].strip():
            raise ToolFailure("the message is empty")
        if self._seeing.is_archived(folder, datetime.fromtimestamp(self._desk.now_ns() / 1e9, UTC)):
            raise ToolFailure("the session is archived; start a new one with what it needs to know")
        own, now = self._session.folder.id, self._desk.now_ns()
        key = arguments.get("key", "")
        # With a key the same message is the same file, whichever turn or process sends it.
        name = f"sent:{sha256(f'{own} {folder.id} {key}'.encode())}" if key else secrets.token_hex(16)
        sender = Sender("agent", session=own, agent=self._agent, access=around.access)
        message = Incoming(FORMAT, name, timestamp(now), arguments["message"], sender, interrupt)
        new = name not in folder.read().standing.taken
        if new:
            try:
                new = Inbox(folder.path).put(message, now)
            except BusyError as error:
                raise ToolFailure(f"{error.message}; try again when it has taken some") from None
        self._runner.wake(folder.id)
        wait = min(arguments.get("wait_seconds", _WAIT), _LONGEST_WAIT)
        outcome = await self._answer(folder, name, wait) if wait else Outcome()
        return _json(
            {
                "session_id": folder.id,
                "delivery": "accepted" if new else "delivered before",
                **_reply(outcome, wait),
            }
        )

    async def _answer(self, folder: SessionFolder, name: str, seconds: float) -> Outcome:
        """Wait for the answer. One that is there is the result of this call, and taken by no other way."""
        async with self._lent():
            await self._runner.answer(folder.id, name, seconds)
        outcome = outcome_of(folder, name)
        if outcome.ended and outcome.turn:
            own = self._session.folder.id
            ids = (answer_id(folder.id, outcome.turn, own), report_id(folder.id, outcome.turn))
            self._session.append(AnswerTaken(folder.id, ids))
        return outcome

    async def stop(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Stop a session and everything below it."""
        del around
        folder = self._seeing.find(arguments["session_id"], below=True)
        below = [folder.id, *self._seeing.below(folder.id)]
        stop = Stop(STOP_FORMAT, timestamp(self._desk.now_ns()), f"session {self._session.folder.id}")
        request_stop(folder.path, stop)
        self._runner.wake(folder.id)
        return _json({"status": "stopping", "session_id": folder.id, "sessions": below})

    async def archive(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Archive sessions that are done."""
        del around
        folder = self._seeing.find(arguments["session_id"], below=True)
        done = []
        for session_id in (folder.id, *self._seeing.below(folder.id)):
            if session_id in self._runner.running:
                raise ToolFailure(f"session {session_id} still runs; stop it, or wait for its report")
            self._seeing.archive(session_id, self._desk.now_ns, self._agent)
            done.append(session_id)
        return _json({"status": "archived", "sessions": done})

    async def output(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Return how a session stands, and the text of its last turn."""
        del around
        folder = self._seeing.find(arguments["session_id"])
        conversation = folder.read()
        return _json(
            {
                "session_id": folder.id,
                "status": status_of(conversation),
                "output": final_text(conversation) or "(no output yet)",
                "stats": stats_of(conversation),
                "waiting": Inbox(folder.path).count(),
            }
        )

    async def agent(self, arguments: Mapping[str, Any], around: Surroundings) -> str:
        """Describe an agent of the team."""
        del around
        name = arguments["agent_id"]
        if name not in self._team:
            raise ToolFailure(f"{brief(name)} is not in your team; it has {', '.join(self._team)}")
        try:
            target = AgentTarget(name, role="sub", access=self._equipment.access)
            manifest = self._desk.builder.ensure(target).manifest
        except HaloError as error:
            raise ToolFailure(f"{name} cannot be asked now: {error.message}") from None
        member = next(m for m in self._equipment.artifact.manifest.team if m.id == name)
        lines = [f"# Agent: {member.name}", f"**Description:** {member.description or '(none)'}"]
        if manifest.runtime is not None:
            lines.append(f"**Model:** {manifest.runtime.binding.model}")
        lines.append(f"**Tools:** {', '.join(spec.name for spec in manifest.tools) or '(none)'}")
        skills = [f"- {skill.id}: {skill.description}" for skill in manifest.skills]
        lines.append("**Skills:**" + ("\n" + "\n".join(skills) if skills else " (none)"))
        return "\n\n".join(lines)


def _reply(outcome: Outcome, wait: float) -> dict[str, Any]:
    """Say what became of the answer; that a message was delivered is said apart."""
    if not wait:
        return {"reply_state": "not waited for"}
    if not outcome.ended:
        state = "being worked on" if outcome.taken else "waiting to be read"
        note = "The message is delivered; do not send it again. The answer comes as a message."
        return {"reply_state": f"none after {wait:g} s, {state}", "note": note}
    if outcome.ended == "error":
        return {"reply_state": "failed", "error": outcome.error}
    state = "answered" if outcome.ended == "done" else f"ended: {outcome.ended}"
    return {"reply_state": state, "reply": outcome.text}


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
