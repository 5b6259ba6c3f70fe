"""A session's folder on disk: `.halo/sessions/<yyyy-mm>/<id>/` (docs/reference/formats.md)."""

import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from halo.files.locks import FileLock, hold
from halo.files.log import CheckedLog, read_log
from halo.records.events import FORMAT, NAMES, Event, EventData, ToolResultAdded, TurnEnded
from halo.records.messages import ToolResult
from halo.sessions.history import Conversation, fold
from halo.sessions.ids import month_of, timestamp

EVENTS = "events.jsonl"

INTERRUPTED = (
    "This call was interrupted before its result was recorded. It may have taken effect; "
    "check before you repeat it."
)


class SessionFolder:
    """The paths of one session, and reading its log. `sessions` is the `.halo/sessions` folder."""

    def __init__(self, sessions: str, session_id: str) -> None:
        self.id = session_id
        self.path = os.path.join(sessions, month_of(session_id), session_id)
        self.events = os.path.join(self.path, EVENTS)

    def exists(self) -> bool:
        """Tell whether there is a log."""
        return os.path.exists(self.events)

    def read(self) -> Conversation:
        """Fold the log. Raises `LogError` when it cannot be read."""
        return fold(read_log(self.events))

    def open(self, now_ns: Callable[[], int], *, create: bool = False) -> "OpenSession":
        """Take the session for one turn. Raises `BusyError` while another process has it."""
        return OpenSession(self, now_ns, create=create)


class OpenSession:
    """A session that this process holds: the kernel lock, the log, and the conversation so far.

    A context manager. Opening mends what a dead process left: the torn tail, and an unfinished turn,
    whose calls without a result are answered as interrupted, once and for good.
    """

    def __init__(self, folder: SessionFolder, now_ns: Callable[[], int], *, create: bool) -> None:
        self.folder = folder
        self._now_ns = now_ns
        self._lock: FileLock = hold(
            os.path.join(folder.path, "lock"), what=f"session {folder.id}", timeout=0.0
        )
        self._lock.acquire()
        try:
            self._log = CheckedLog.open(folder.events, create=create)
            try:
                self.conversation = folder.read()
                self._mend()
            except BaseException:
                self._log.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def append(self, data: EventData, *, turn: int | None = None) -> None:
        """Append an event and keep it through power loss; `turn` is the current one unless given."""
        event = Event(
            format=FORMAT,
            seq=self.conversation.seq + 1,
            ts=timestamp(self._now_ns()),
            type=NAMES[type(data)],
            turn=self.conversation.turn if turn is None else turn,
            data=msgspec.Raw(msgspec.json.encode(data)),
        )
        self._log.append(msgspec.json.encode(event))
        self.conversation.add(event)

    def _mend(self) -> None:
        if self.conversation.open_turn:
            self.answer_open_calls()
            self.append(TurnEnded("interrupted"))

    def answer_open_calls(self) -> None:
        """Record for every call without a result that it was interrupted: no call stays open."""
        for call_id, tool in list(self.conversation.open_calls.items()):
            result = ToolResult(call_id, INTERRUPTED, is_error=True)
            self.append(ToolResultAdded(result, tool, mended=True))

    def close(self) -> None:
        """Let the session go."""
        self._log.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
