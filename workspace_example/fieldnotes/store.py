"""Find the notes below a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldnotes.note import Note, parse_note

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def load_notes(root: Path) -> list[Note]:
    """Read every `<station>/<note>.md` below `root`, ordered by station and day.

    Raises:
        NoteError: a note cannot be read.

    """
    notes = [parse_note(path.read_text(encoding="utf-8"), path.stem) for path in _files(root)]
    return sorted(notes, key=lambda note: (note.station, note.day, note.name))


def current(notes: Iterable[Note]) -> list[Note]:
    """Leave out the notes that another one corrects."""
    notes = list(notes)
    corrected = {(note.station, note.corrects) for note in notes if note.corrects}
    return [note for note in notes if (note.station, note.name) not in corrected]


def _files(root: Path) -> list[Path]:
    return [path for path in sorted(root.glob("*/*.md")) if not path.parent.name.startswith(".")]
