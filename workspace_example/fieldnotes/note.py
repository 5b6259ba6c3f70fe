"""One field note: measurements in the front matter, then what was seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date


class NoteError(ValueError):
    """A note that cannot be read; the message names the file and the fault."""


@dataclass(frozen=True, slots=True)
class Note:
    """A visit to a station. Levels are in centimetres, temperatures in Celsius."""

    name: str
    station: str
    day: date
    observer: str
    level_cm: float
    temp_c: float | None
    corrects: str | None
    text: str


def parse_note(source: str, name: str) -> Note:
    """Read a note from `source`; `name` is its file name without the ending.

    Raises:
        NoteError: a field is missing or has a value that does not fit.

    """
    fields, text = _split(source, name)
    try:
        return Note(
            name=name,
            station=fields["station"],
            day=date.fromisoformat(fields["date"]),
            observer=fields["observer"],
            level_cm=float(fields["level_cm"]),
            temp_c=float(fields["temp_c"]) if "temp_c" in fields else None,
            corrects=fields.get("corrects"),
            text=text,
        )
    except KeyError as error:
        message = f"{name}: the front matter has no field {error}"
        raise NoteError(message) from error
    except ValueError as error:
        message = f"{name}: {error}"
        raise NoteError(message) from error


def _split(source: str, name: str) -> tuple[dict[str, str], str]:
    """Return the fields of the front matter and the text below it."""
    opening, _, rest = source.partition("\n")
    head, closing, text = rest.partition("\n---\n")
    if opening != "---" or not closing:
        message = f"{name}: no front matter between two lines of ---"
        raise NoteError(message)
    fields: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            message = f"{name}: expected 'key: value' but got {line!r}"
            raise NoteError(message)
        fields[key.strip()] = value.strip()
    return fields, text.strip()
