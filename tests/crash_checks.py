"""What must hold of sessions whatever was killed: at any moment, and when all is done."""

from collections import Counter, defaultdict
from typing import NamedTuple
from zlib import crc32

import msgspec
from crash_office import DONE, Workspace

from halo.records.events import TYPES, Event, MessageAdded, ToolResultAdded, TurnEnded, TurnStarted
from halo.records.session_events import (
    AnswerTaken,
    ChildStarted,
    DeliveryDue,
    ReportSent,
    SessionChanged,
    SessionCreated,
)
from halo.sessions.derived import read_header
from halo.sessions.find import session_ids
from halo.sessions.folder import INTERRUPTED, SessionFolder
from halo.sessions.inbox.control import wanted_stop
from halo.sessions.inbox.folder import Inbox, starts_turn
from halo.sessions.index.lookup import headers
from halo.sessions.reading import Unread
from halo.sessions.turns import NOT_BEGUN


class Failed(Exception):  # noqa: N818
    """Something does not hold."""


class Known(NamedTuple):
    """What processes have said that is done.

    By session: events (number to checksum), messages put. `calls` that were logged; `passing` are the sessions
    that were started to be deleted, `parents` who started which.
    """

    events: dict[str, dict[int, int]]
    put: dict[str, set[str]]
    calls: set[str]
    passing: set[str]
    parents: dict[str, str]

    @classmethod
    def nothing(cls) -> "Known":
        return cls(defaultdict(dict), defaultdict(set), set(), set(), {})

    def may_be_gone(self, session: str) -> bool:
        """Whether a session, or one above it, was started to be deleted."""
        while session:
            if session in self.passing:
                return True
            session = self.parents.get(session, "")
        return False


def checksum(event: Event) -> int:
    return crc32(msgspec.json.encode([event.seq, event.ts, event.type, event.turn, event.data]))


class Log:
    """One session's log, decoded."""

    def __init__(self, folder: SessionFolder) -> None:
        self.folder = folder
        self.unread = []
        self.events = []
        for found in folder.read_events():
            (self.unread if isinstance(found, Unread) else self.events).append(found)
        self.data = [msgspec.json.decode(e.data, type=TYPES[e.type]) for e in self.events]
        self.sums = {event.seq: checksum(event) for event in self.events}
        self.created = next((d for d in self.data if isinstance(d, SessionCreated)), None)

    def of(self, *kinds):
        return [data for data in self.data if isinstance(data, kinds)]

    @property
    def parent(self):
        return self.created.parent if self.created else ""

    def taken(self):
        """How often each message was taken: as a message, or as the result of a call that was recorded."""
        found, returning = Counter(), []
        for data in self.data:
            if isinstance(data, MessageAdded):
                found.update(source.id for source in data.sources)
            elif isinstance(data, AnswerTaken):
                returning.append(data)
            elif isinstance(data, ToolResultAdded):
                if not data.mended:
                    found.update(name for answer in returning for name in answer.ids)
                returning = []
        return found


def expect(holds, what):
    if not holds:
        raise Failed(what)


def check(ws: Workspace, known: Known, kills: int) -> dict[str, Log]:
    """Check what holds at any moment in which nobody runs, and return the logs."""
    folders = [SessionFolder(ws.sessions, name) for name in session_ids(ws.sessions)]
    logs = {folder.id: Log(folder) for folder in folders if folder.exists()}
    for name, log in logs.items():
        _check_log(name, log, kills)
        known.parents[name] = log.parent
        known.passing.update(d.session for d in log.of(ChildStarted) if d.cleanup == "delete")
    for name in known.events.keys() - logs.keys():
        expect(known.may_be_gone(name), f"session {name} is gone, and nobody deleted it")
    for name, sums in known.events.items():
        for seq, crc in sums.items() if name in logs else ():
            found = logs[name].sums.get(seq)
            expect(
                found == crc,
                f"acknowledged event {seq} of {name} is {'lost' if found is None else 'another'}",
            )
    _check_effects(ws, known, logs)
    return logs


def _check_log(name: str, log: Log, kills: int) -> None:
    numbers = [event.seq for event in log.events]
    expect(numbers == list(range(1, len(numbers) + 1)), f"{name}: numbers {numbers}")
    expect(len(log.unread) <= kills, f"{name}: {log.unread}")
    expect(not log.of(SessionCreated)[1:], f"{name}: created twice")
    calls, results = set(), Counter(d.result.call_id for d in log.of(ToolResultAdded))
    open_turn, stopped, people = False, False, False
    for event, data in zip(log.events, log.data, strict=True):
        match data:
            case TurnStarted():
                expect(not open_turn, f"{name}: turn {event.turn} begins within another")
                open_turn, people = True, False
            case TurnEnded():
                expect(open_turn, f"{name}: turn {event.turn} ends, and did not run")
                open_turn = False
                missing = calls - set(results)
                expect(not missing, f"{name}: turn {event.turn} ends without results of {missing}")
            case MessageAdded():
                calls |= {call.id for call in data.message.calls}
                if data.sources and open_turn and stopped:
                    people = any(source.sender.kind != "report" for source in data.sources)
                    expect(people, f"{name}: a report set a stopped session going again")
                    stopped = False
            case SessionChanged(name="stopped"):
                stopped = bool(data.value)
    expect(max(results.values(), default=1) == 1, f"{name}: two results of one call: {results}")
    expect(set(results) <= calls, f"{name}: results without calls")
    twice = [message for message, count in log.taken().items() if count > 1]
    expect(not twice, f"{name}: messages taken twice: {twice}")


def _check_effects(ws: Workspace, known: Known, logs: dict[str, Log]) -> None:
    lines = ws.effects.read_text().split() if ws.effects.exists() else []
    twice = [token for token, count in Counter(lines).items() if count > 1]
    expect(not twice, f"calls that were run twice: {twice}")
    done, called = set(lines), {}
    for name, log in logs.items():
        for data in log.of(MessageAdded):
            called.update((call.id, name) for call in data.message.calls)
        for data in log.of(ToolResultAdded):
            if data.tool != "file_write":
                continue
            result = data.result
            ran = result.call_id in done
            expect(not (result.text == DONE and not ran), f"{name}: {result.call_id} was said to be done")
            expect(
                not (result.text == NOT_BEGUN and ran), f"{name}: {result.call_id} was said not to have run"
            )
            expect(result.text in (DONE, NOT_BEGUN, INTERRUPTED), f"{name}: {result.text}")
    unknown = [token for token in done if token not in called and token not in known.calls]
    expect(not unknown, f"calls that ran and are in no log: {unknown}")


def check_done(ws: Workspace, known: Known, logs: dict[str, Log]) -> None:
    """Check what holds when nobody has anything left to do."""
    for name, log in logs.items():
        path = log.folder.path
        conversation = log.folder.read()
        standing = conversation.standing
        expect(not conversation.open_turn, f"{name}: a turn was never ended")
        expect(not conversation.open_calls, f"{name}: calls were never answered")
        expect(wanted_stop(path) is None, f"{name} was never stopped")
        waiting = [w.message for w in Inbox(path).waiting()[0]]
        wakes = starts_turn(
            [m for m in waiting if m.id not in standing.taken], stopped=bool(standing.stopped)
        )
        expect(standing.archived or not wakes, f"{name} never took {[m.id for m in waiting]}")
        expect(read_header(log.folder).seq == conversation.seq, f"{name}: its header is of another log")
        lost = known.put[name] - set(log.taken()) - {m.id for m in waiting}
        expect(not lost, f"{name}: messages are lost: {lost}")
        _check_report(name, log, logs)
        expect(not standing.due, f"{name}: nobody knows whether these arrived: {[*standing.due]}")
        due = [data.message.id for data in log.of(DeliveryDue)]
        expect(len(set(due)) == len(due), f"{name}: two parts with one id: {due}")
        arrived = {path.stem for path in (ws.folder / "ws" / ".halo" / "outbox").rglob("*.json")}
        expect(set(due) <= arrived, f"{name}: parts never arrived: {set(due) - arrived}")
    listed = {header.id: header.seq for header in headers(ws.sessions)}
    numbers = {name: len(log.events) for name, log in logs.items() if log.events or log.unread}
    expect(listed == numbers, f"the index is of other logs: {dict(listed.items() ^ numbers.items())}")


def _check_report(name: str, log: Log, logs: dict[str, Log]) -> None:
    """A session that was started by another has told it what became of its last turn, once."""
    sent = Counter(d.id for d in log.of(ReportSent))
    twice = [report for report, count in sent.items() if count > 1]
    expect(not twice, f"{name}: reported twice: {twice}")
    parent = logs.get(log.parent)
    if parent is None:
        return
    taken = parent.taken()
    waiting = {w.message.id for w in Inbox(parent.folder.path).waiting()[0]}
    for data in log.of(ReportSent):
        if data.to == log.parent:
            expect(data.id in taken or data.id in waiting, f"{log.parent} has not got {data.id}")
    turns = max((event.turn for event in log.events), default=0)
    owed = f"report:{name}:{turns}"
    expect(not turns or owed in sent, f"{name} has not reported its turn {turns} to {log.parent}")
    # One may be missing among those that were sent: put, and the process died before it wrote that down.
    heard = {message for message in taken if message.startswith(f"report:{name}:")}
    made_up = heard - {f"report:{name}:{turn}" for turn in range(1, turns + 1)}
    expect(not made_up, f"{log.parent} heard of {name} what never was: {made_up}")
