"""A session's folder on disk: `.halo/sessions/<yyyy-mm>/<id>/` (docs/reference/formats.md)."""

import os
from collections.abc import Callable, Iterator

import msgspec

from halo.errors import LogError
from halo.files import ops
from halo.files.closing import Closing
from halo.files.locks import FileLock, hold
from halo.files.log import CheckedLog, read_log
from halo.files.regular import refuse_links
from halo.files.stamps import Stamp
from halo.records.events import FORMAT, NAMES, Event, EventData, ToolResultAdded, TurnEnded
from halo.records.messages import ToolResult
from halo.sessions.attachments import fetch, put_aside
from halo.sessions.history import Conversation, fold
from halo.sessions.ids import month_of, timestamp
from halo.sessions.reading import Unread, read_events

EVENTS = "events.jsonl"
LOCK = "lock"
_GRACE = 0.02  # seconds: whoever looks whether a session is held holds it for a moment

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
        self._ahead: tuple[Stamp | None, Conversation] | None = None

    def exists(self) -> bool:
        """Tell whether there is a log."""
        return os.path.exists(self.events)

    def read(self) -> Conversation:
        """Fold the log. Raises `LogError` when it cannot be read."""
        return fold(read_log(self.events), self._fetch)

    def read_ahead(self) -> Conversation:
        """Fold the log as `read` does, and keep it: `open` goes on with it where nothing has come since."""
        stamp = self._stamp()  # before it is read, for it may grow
        ahead, self._ahead = self._ahead, None
        if ahead is None or stamp is None or ahead[0] != stamp:
            ahead = (stamp, self.read())
        self._ahead = ahead
        return ahead[1]

    def take_ahead(self) -> Conversation:
        """Return what `read_ahead` does, for whoever holds the session and changes it."""
        conversation = self.read_ahead()
        self._ahead = None
        return conversation

    def give_back(self, conversation: Conversation) -> None:
        """Keep what was folded for the next `open`; this process still holds the session.

        So a process that runs turn after turn in a session reads its log once.
        """
        self._ahead = (self._stamp(), conversation)

    def _stamp(self) -> Stamp | None:
        try:
            return Stamp.of(os.stat(self.events, follow_symlinks=False))
        except OSError:
            return None  # reading says why

    def read_events(self) -> Iterator[Event | Unread]:
        """Read the events, with their attachments. Raises `LogError`."""
        return read_events(read_log(self.events), self._fetch)

    def _fetch(self, data: bytes) -> bytes:
        return fetch(self.path, data)

    def make(self) -> None:
        """Make the folder; its name and those above it survive a power loss. Raises OSError.

        A folder that is there already may have been made by a process that died before its name was synced.
        So all names that the log will depend on are synced, whoever made them.
        """
        ops.make_dirs(self.path, sync=True)
        month = os.path.dirname(self.path)
        sessions = os.path.dirname(month)
        for folder in (month, sessions, os.path.dirname(sessions)):
            ops.fsync_dir(folder)

    def open(self, now_ns: Callable[[], int], *, create: bool = False) -> "OpenSession":
        """Take the session for one turn. Raises `BusyError` while another process has it."""
        return OpenSession(self, now_ns, create=create)


def check_writable(folder: SessionFolder, conversation: Conversation) -> None:
    """Raise LogError for a log that holds what a later version wrote and this one cannot read.

    Going on would leave a gap where those events are, for this version's model and for the later version.
    """
    if conversation.newer:
        rest = len(conversation.newer) - 1
        raise LogError(
            f"was written by a newer version of Halo: {conversation.newer[0]}"
            + (f" (and {rest} more)" if rest else ""),
            file=folder.events,
            hint="use the newer Halo to go on in this session, or begin another one; this one is as it was",
        )


class OpenSession(Closing):
    """A session that this process holds: the kernel lock, the log, and the conversation so far.

    A context manager. Opening mends what a dead process left: the torn tail, and an unfinished turn,
    whose calls without a result are answered as interrupted, once and for good. A log that a newer version
    has written to is refused (`check_writable`) and stays as it is.

    `sound` is False after an event could not be appended: whether it is in the log is then unknown, so
    nothing more goes into it, and the next one who opens the session mends it. `fresh` are the events that
    were appended since the log had `settled`: so many events and bytes, of which files were derived.
    """

    def __init__(self, folder: SessionFolder, now_ns: Callable[[], int], *, create: bool) -> None:
        self.folder = folder
        self.sound = True
        sessions, month = os.path.dirname(os.path.dirname(folder.path)), month_of(folder.id)
        refuse_links(sessions, month, os.path.join(month, folder.id))
        self._now_ns = now_ns
        if create:
            folder.make()  # the lock would make it too, without syncing its name
        elif not folder.exists():
            raise LogError("there is no log here", file=folder.events, hint="check the id of the session")
        self._lock: FileLock = hold(
            os.path.join(folder.path, LOCK), what=f"session {folder.id}", timeout=_GRACE
        )
        self._lock.acquire()
        try:
            # Read before it is opened, because opening closes a torn tail.
            self.conversation = folder.take_ahead() if folder.exists() else Conversation()
            check_writable(folder, self.conversation)
            self.fresh: list[Event] = []
            self.settled = (self.conversation.seq, _size(folder.events))
            self._log = CheckedLog.open(folder.events, create=create)
            try:
                self._mend()
            except BaseException:
                self._log.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def append(self, data: EventData, *, turn: int | None = None) -> Event:
        """Append an event, keep it through power loss, and return it; `turn` is the current one unless given.

        Raises LogError when the system refuses, and ever after.
        """
        if not self.sound:
            raise LogError(
                "takes no more events: an earlier one could not be written", file=self.folder.events
            )
        payload = msgspec.json.encode(data)
        event = Event(
            format=FORMAT,
            seq=self.conversation.seq + 1,
            ts=timestamp(self._now_ns()),
            type=NAMES[type(data)],
            turn=self.conversation.turn if turn is None else turn,
            data=msgspec.Raw(payload),
        )
        self.sound = False
        stored = msgspec.Raw(put_aside(self.folder.path, payload))
        self._log.append(msgspec.json.encode(msgspec.structs.replace(event, data=stored)))
        self.sound = True
        self.conversation.add(event)
        self.fresh.append(event)
        return event

    def _mend(self) -> None:
        if self.conversation.open_turn:
            self.answer_open_calls()
            self.append(TurnEnded("interrupted", mended=True))

    def answer_open_calls(self, text: str = INTERRUPTED) -> None:
        """Record for every call without a result why it has none: no call stays open."""
        for call_id, tool in list(self.conversation.open_calls.items()):
            result = ToolResult(call_id, text, is_error=True)
            self.append(ToolResultAdded(result, tool, mended=True))

    def settle(self, log_bytes: int) -> None:
        """Forget the fresh events: files were derived of all that the log holds, so many bytes."""
        self.settled = (self.conversation.seq, log_bytes)
        self.fresh.clear()

    def close(self) -> None:
        """Let the session go."""
        self._log.close()
        if self.sound:
            self.folder.give_back(self.conversation)
        self._lock.release()


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # there is none yet
