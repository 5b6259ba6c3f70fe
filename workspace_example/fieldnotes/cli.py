"""The command `fieldnotes`: list the notes, report on a station."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fieldnotes.note import Note, NoteError
from fieldnotes.report import Units, station_report
from fieldnotes.store import current, load_notes

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 fine, 1 unknown station, 2 unreadable note."""
    options = _parser().parse_args(argv)
    try:
        notes = current(load_notes(options.root))
    except NoteError as error:
        print(error, file=sys.stderr)
        return 2
    return _list(notes) if options.command == "list" else _report(notes, options)


def _list(notes: Sequence[Note]) -> int:
    for note in notes:
        print(f"{note.station}/{note.name}  {Units.METRIC.level(note.level_cm)}")
    return 0


def _report(notes: Sequence[Note], options: argparse.Namespace) -> int:
    chosen = [note for note in notes if note.station == options.station]
    if not chosen:
        print(f"no notes of station {options.station!r} in {options.root}", file=sys.stderr)
        return 1
    report = station_report(
        options.station,
        chosen,
        units=options.units,
        region=options.region,
        contact=options.contact,
    )
    print(report, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fieldnotes", description="Field notes of stations.")
    parser.add_argument("--root", type=Path, default=Path("stations"), help="where notes are")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="one line a note")
    report = commands.add_parser("report", help="summarise a station as Markdown")
    report.add_argument("station")
    report.add_argument("--units", type=Units, choices=list(Units), default=Units.METRIC)
    report.add_argument("--region", default="", help="added to the title")
    report.add_argument("--contact", default="", help="whom to ask")
    return parser
