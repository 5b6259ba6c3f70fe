"""`<yyyy-mm>/index.jsonl`: the headers of a month's sessions, a checked line each; the last of an id wins.

A row is added after every turn, which takes as long however many sessions there are. Nothing is synced, and
nothing depends on a row: one that is torn, lost or damaged costs itself alone, and its session is read
itself; one that is old is known by the size of the log. The file is rewritten, with one row for each session
that is there, when it has doubled since the last time; its first line says how large it was then.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from halo.errors import LogError
from halo.files import ops
from halo.files.atomic import replace_file
from halo.files.locks import FileLock, hold
from halo.files.log import encode_line, record_of
from halo.files.regular import open_regular, refuse_links
from halo.records.headers import FORMAT, Header
from halo.sessions.ids import month_of

NAME = "index.jsonl"
LOCK = "index.lock"
_LONGEST = 65_536  # bytes of a row; what has more is none
_SLACK = 65_536  # bytes that a file may always have
_PATIENCE = 5.0  # seconds; who holds the lock adds a row, or rewrites a file of some MB
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_header = msgspec.json.Decoder(Header).decode


class _Start(msgspec.Struct, frozen=True):
    """The first line of a file that was rewritten: `bytes` is how large it was then."""

    format: int
    bytes: int


class _Named(msgspec.Struct, frozen=True):
    """What is known of a row of any version."""

    id: str


def note(sessions: str, header: Header) -> None:
    """Add the row of a session. Raises OSError, `BusyError`, and `LogError` for what is no regular file."""
    note_all(sessions, month_of(header.id), [header])


def note_all(sessions: str, month: str, headers: Iterable[Header]) -> None:
    """Add rows of sessions of one month.

    A session whose beginning is lost has none, so that it is always read.
    """
    lines = b"".join(_line(header) for header in headers if header.target is not None)
    if not lines:
        return
    refuse_links(sessions, month)
    with _lock(sessions, month):
        path = os.path.join(sessions, month, NAME)
        size, start = _append(path, lines)
        if size > 2 * start + _SLACK:
            _rewrite(sessions, month, _last_rows(path))


def replace_all(sessions: str, month: str, headers: Iterable[Header]) -> None:
    """Make the file of a month anew from `headers`. Raises OSError and `BusyError`."""
    refuse_links(sessions, month)
    with _lock(sessions, month):
        _rewrite(sessions, month, {h.id: _line(h) for h in headers if h.target is not None})


def drop_gone(sessions: str, month: str) -> None:
    """Take the rows of sessions that are gone out of the file of a month. Raises OSError and `BusyError`."""
    refuse_links(sessions, month)
    path = os.path.join(sessions, month, NAME)
    with _lock(sessions, month):
        if os.path.exists(path):
            _rewrite(sessions, month, _last_rows(path))


def read_rows(sessions: str, month: str) -> dict[str, Header]:
    """Return the last row of each session of a month, old ones too. Raises OSError; no file is no row."""
    found: dict[str, Header] = {}
    for line in lines_of(sessions, month):
        try:
            header = _header(line)
        except msgspec.MsgspecError:
            continue  # the first line, or one of a later version
        if header.format == FORMAT:
            found[header.id] = header
        else:
            found.pop(header.id, None)
    return found


def header_in(row: bytes) -> Header | None:
    """Return the header that is in a row; None for one of a later version."""
    try:
        header = _header(row)
    except msgspec.MsgspecError:
        return None
    return header if header.format == FORMAT else None


def lines_of(sessions: str, month: str) -> Iterator[bytes]:
    """Return the records of all lines whose sums hold, in order. Raises OSError unless there is no file."""
    return _records(os.path.join(sessions, month, NAME))


def _records(path: str) -> Iterator[bytes]:
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return
    with file:
        for line in iter(partial(file.readline, _LONGEST), b""):
            record = record_of(line[:-1])
            if record is not None:
                yield record


def _line(header: Header) -> bytes:
    return encode_line(msgspec.json.encode(header))


def _lock(sessions: str, month: str) -> FileLock:
    return hold(os.path.join(sessions, month, LOCK), what=f"the index of {month}", timeout=_PATIENCE)


def _append(path: str, lines: bytes) -> tuple[int, int]:
    """Add `lines`, and return how large the file is now, and was when it was rewritten last."""
    try:
        fd = os.open(path, _APPEND | _SAFE, 0o644)
    except IsADirectoryError as error:
        raise LogError("is not a regular file", file=path, hint="move it away") from error
    with os.fdopen(fd, "r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        torn = file.read(1) not in (b"\n", b"")  # whoever wrote it died
        ops.write_all(fd, path, b"\n" + lines if torn else lines)
        file.seek(0)
        head = file.read(256).partition(b"\n")[0]
    return size + torn + len(lines), _size_at_start(head)


def _size_at_start(head: bytes) -> int:
    record = record_of(head)
    try:
        return msgspec.json.decode(record or b"", type=_Start).bytes
    except msgspec.MsgspecError:
        return 0


def _last_rows(path: str) -> dict[str, bytes]:
    """Return the last line of each session, as it is: it may be of a later version."""
    found: dict[str, bytes] = {}
    for record in _records(path):
        try:
            found[msgspec.json.decode(record, type=_Named).id] = encode_line(record)
        except msgspec.MsgspecError:
            continue
    return found


def _rewrite(sessions: str, month: str, lines: dict[str, bytes]) -> None:
    there = set(os.listdir(os.path.join(sessions, month)))
    rows = b"".join(line for session_id, line in lines.items() if session_id in there)
    start = encode_line(msgspec.json.encode(_Start(FORMAT, len(rows))))
    replace_file(os.path.join(sessions, month, NAME), start + rows)
