"""Finds what of a log cannot be used, and reports it beside the log, which stays as it is."""

import os
from collections.abc import Iterator
from functools import partial

import msgspec

from halo.files.atomic import replace_file
from halo.files.canonical import readable_json
from halo.files.digests import sha256
from halo.files.log import LogLine, decode_line
from halo.files.regular import open_regular, read_regular
from halo.files.visible import visible
from halo.records.damage import FORMAT, DamageReport, Lost
from halo.sessions.attachments import fetch
from halo.sessions.folder import SessionFolder
from halo.sessions.history import gap_before
from halo.sessions.reading import Unread, read_events

NAME = "damage.json"
_BEGINNING = 200  # bytes of a lost line that are shown
_MOST = 10_000  # lost lines in one report; the last one says how many more there are
_LARGEST = 64 << 20  # bytes of a report


def damage_of(folder: SessionFolder) -> DamageReport:
    """Look at every line of a log. Raises OSError; what was written by a later version is no damage."""
    found: list[Lost] = []
    more = 0
    with open_regular(folder.events) as file:
        for lost in _lost(file, folder.path):
            if len(found) < _MOST:
                found.append(lost)
            else:
                more += 1
        size = file.tell()
    if more:
        found[-1] = Lost(f"{more + 1:,} more are lost", found[-1].line, found[-1].offset, 0)
    return DamageReport(FORMAT, folder.id, size, tuple(found))


def _lost(lines: Iterator[bytes], path: str) -> Iterator[Lost]:
    offset = last = unnumbered = 0
    for number, line in enumerate(lines, 1):
        for decoded in decode_line(number, line):
            for event in read_events([decoded], partial(fetch, path)):
                envelope = event.event if isinstance(event, Unread) else event
                if isinstance(event, Unread) and not event.newer:
                    yield _of_line(event, decoded, number, offset, line)
                if envelope is None:
                    unnumbered += 1
                    continue
                gap = gap_before(envelope.seq, last, unnumbered)
                if gap:
                    yield Lost(gap, number, offset, 0, event=envelope.seq)
                last, unnumbered = max(last, envelope.seq), 0
        offset += len(line)


def _of_line(unread: Unread, decoded: LogLine, number: int, offset: int, line: bytes) -> Lost:
    if unread.event is not None:  # its line is whole, and its attachment is not
        return Lost(unread.problem, number, offset, len(line), event=unread.event.seq)
    beginning = visible(line[:_BEGINNING].decode("utf-8", "backslashreplace").rstrip("\n"))
    problem = decoded.problem or unread.problem
    return Lost(problem, number, offset, len(line), sha256(line), beginning)


def reported(folder: SessionFolder) -> DamageReport | None:
    """Return the report that lies beside a log; None where there is none that can be read."""
    try:
        report = msgspec.json.decode(
            read_regular(os.path.join(folder.path, NAME), _LARGEST), type=DamageReport
        )
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    return report if report.format == FORMAT and report.session == folder.id else None


def write_report(folder: SessionFolder, report: DamageReport) -> None:
    """Put the report beside the log. Raises OSError."""
    replace_file(os.path.join(folder.path, NAME), readable_json(report))
