"""A file of a month's sessions that is derived from their logs: checked lines; the last one of an id wins.

A line is added after every turn, which takes as long however many sessions there are. Nothing is synced, and
nothing depends on a line: one that is torn, lost or damaged costs itself alone, and its session is read
itself; one that is old is known by the size of the log. The file is rewritten, with one line for each session
that is there, when it has doubled since the last time; its first line says how large it was then.
"""

import os
from collections.abc import Iterator
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from halo.errors import LogError
from halo.files import ops
from halo.files.atomic import replace_file
from halo.files.locks import FileLock, hold
from halo.files.log import encode_line, record_of
from halo.files.regular import open_regular, refuse_links

LOCK = "index.lock"
FORMAT = 1
_LONGEST = 65_536  # bytes of a line; what has more is none
_SLACK = 65_536  # bytes that a file may always have
_PATIENCE = 5.0  # seconds; who holds the lock adds a line, or rewrites a file of some MB
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class _Start(msgspec.Struct, frozen=True):
    """The first line of a file that was rewritten: `bytes` is how large it was then."""

    format: int
    bytes: int


class _Named(msgspec.Struct, frozen=True):
    """What is known of a line of any version."""

    id: str


class Row(Protocol):
    """What every line says."""

    @property
    def format(self) -> int: ...  # noqa: D102
    @property
    def id(self) -> str: ...  # noqa: D102


_Row = TypeVar("_Row", bound=Row)


class MonthFile:
    """The file `name` in the folder of a month. `sessions` is the `.halo/sessions` folder.

    What changes it raises OSError, `BusyError`, and `LogError` for what is no regular file.
    """

    def __init__(self, sessions: str, month: str, name: str) -> None:
        self._sessions, self._month = sessions, month
        self._folder = os.path.join(sessions, month)
        self.path = os.path.join(self._folder, name)

    def add(self, lines: bytes) -> None:
        """Add lines (`encode_line`) of sessions of the month."""
        refuse_links(self._sessions, self._month)
        with self._lock():
            size, start = self._append(lines)
            if size > 2 * start + _SLACK:
                self._rewrite(self._last_lines())

    def replace(self, lines: dict[str, bytes]) -> None:
        """Make the file anew of lines by the ids of sessions."""
        refuse_links(self._sessions, self._month)
        with self._lock():
            self._rewrite(lines)

    def drop_gone(self) -> None:
        """Take out the lines of sessions that are gone."""
        refuse_links(self._sessions, self._month)
        with self._lock():
            if os.path.exists(self.path):
                self._rewrite(self._last_lines())

    def last(self, kind: type[_Row]) -> dict[str, _Row]:
        """Return the last line of each session, old ones too. Raises OSError but for an absent file.

        Lines of another format are passed over, and what they are about is not known then.
        """
        decode = msgspec.json.Decoder(kind).decode
        found: dict[str, _Row] = {}
        for record in self.records():
            try:
                row = decode(record)
            except (msgspec.MsgspecError, RecursionError):
                continue  # the first line, or one of a later version
            if row.format == FORMAT:
                found[row.id] = row
            else:
                found.pop(row.id, None)
        return found

    def records(self) -> Iterator[bytes]:
        """Yield the records of all lines whose sums hold, in order. Raises OSError but for an absent file."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return
        with file:
            for line in iter(partial(file.readline, _LONGEST), b""):
                record = record_of(line[:-1])
                if record is not None:
                    yield record

    def _lock(self) -> FileLock:
        path = os.path.join(self._folder, LOCK)
        return hold(path, what=f"the index of {self._month}", timeout=_PATIENCE)

    def _append(self, lines: bytes) -> tuple[int, int]:
        """Add `lines`, and return how large the file is now, and was when it was rewritten last."""
        try:
            fd = os.open(self.path, _APPEND | _SAFE, 0o644)
        except IsADirectoryError as error:
            raise LogError("is not a regular file", file=self.path, hint="move it away") from error
        with os.fdopen(fd, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            torn = file.read(1) not in (b"\n", b"")  # whoever wrote it died
            ops.write_all(fd, self.path, b"\n" + lines if torn else lines)
            file.seek(0)
            head = file.read(256).partition(b"\n")[0]
        return size + torn + len(lines), _size_at_start(head)

    def _last_lines(self) -> dict[str, bytes]:
        """Return the last line of each session, as it is: it may be of a later version."""
        found: dict[str, bytes] = {}
        for record in self.records():
            try:
                found[msgspec.json.decode(record, type=_Named).id] = encode_line(record)
            except (msgspec.MsgspecError, RecursionError):
                continue
        return found

    def _rewrite(self, lines: dict[str, bytes]) -> None:
        there = set(os.listdir(self._folder))
        rows = b"".join(line for session_id, line in lines.items() if session_id in there)
        start = encode_line(msgspec.json.encode(_Start(FORMAT, len(rows))))
        replace_file(self.path, start + rows)


def _size_at_start(head: bytes) -> int:
    record = record_of(head)
    try:
        return msgspec.json.decode(record or b"", type=_Start).bytes
    except (msgspec.MsgspecError, RecursionError):
        return 0
