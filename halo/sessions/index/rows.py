"""`<yyyy-mm>/index.jsonl`: the headers of a month's sessions, a checked line each; the last of an id wins."""

from collections.abc import Iterable, Iterator

import msgspec

from halo.files.log import encode_line
from halo.records.headers import FORMAT, Header
from halo.sessions.ids import month_of
from halo.sessions.index.month_file import MonthFile

NAME = "index.jsonl"

_header = msgspec.json.Decoder(Header).decode


def note(sessions: str, header: Header) -> None:
    """Add the row of a session. Raises as `MonthFile.add`."""
    note_all(sessions, month_of(header.id), [header])


def note_all(sessions: str, month: str, headers: Iterable[Header]) -> None:
    """Add rows of sessions of one month.

    A session whose beginning is lost has none, so that it is always read.
    """
    lines = b"".join(_line(header) for header in headers if header.target is not None)
    if lines:
        MonthFile(sessions, month, NAME).add(lines)


def replace_all(sessions: str, month: str, headers: Iterable[Header]) -> None:
    """Make the file of a month anew from `headers`. Raises OSError and `BusyError`."""
    lines = {h.id: _line(h) for h in headers if h.target is not None}
    MonthFile(sessions, month, NAME).replace(lines)


def drop_gone(sessions: str, month: str) -> None:
    """Take the rows of sessions that are gone out of the file of a month. Raises OSError and `BusyError`."""
    MonthFile(sessions, month, NAME).drop_gone()


def read_rows(sessions: str, month: str) -> dict[str, Header]:
    """Return the last row of each session of a month, old ones too. Raises OSError; no file is no row."""
    return MonthFile(sessions, month, NAME).last(Header)


def header_in(row: bytes) -> Header | None:
    """Return the header that is in a row; None for one of a later version."""
    try:
        header = _header(row)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return header if header.format == FORMAT else None


def lines_of(sessions: str, month: str) -> Iterator[bytes]:
    """Return the records of all lines whose sums hold, in order. Raises OSError unless there is no file."""
    return MonthFile(sessions, month, NAME).records()


def _line(header: Header) -> bytes:
    return encode_line(msgspec.json.encode(header))
