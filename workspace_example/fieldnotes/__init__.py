"""Field notes of river stations, kept as Markdown files."""

from fieldnotes.note import Note, NoteError, parse_note
from fieldnotes.report import Units, station_report
from fieldnotes.store import current, load_notes

__all__ = [
    "Note",
    "NoteError",
    "Units",
    "current",
    "load_notes",
    "parse_note",
    "station_report",
]
