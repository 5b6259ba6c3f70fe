"""Check the form of field notes: `lint_notes.py PATH...`, see `../references/format.md`."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED = ("station", "date", "observer", "level_cm")
KNOWN = {*NEEDED, "temp_c", "corrects"}
RANGES = {"level_cm": (0.0, 600.0), "temp_c": (-1.0, 30.0)}


class Fault(NamedTuple):
    """What is wrong at a line, counted from 1."""

    line: int
    text: str


class Field(NamedTuple):
    """A value of the front matter and its line."""

    value: str
    line: int


def lint(path: Path) -> list[Fault]:
    """Return the faults of the note at `path`, in order of lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    faults = [
        Fault(number, "white space at the end of the line")
        for number, line in enumerate(lines, start=1)
        if line != line.rstrip()
    ]
    if not lines or lines[0] != "---" or "---" not in lines[1:]:
        return sorted([*faults, Fault(1, "no front matter between two lines of ---")])
    end = lines.index("---", 1)
    fields, found = read_fields(lines[1:end])
    faults += [*found, *check_fields(fields, path)]
    if not any(line.strip() for line in lines[end + 1 :]):
        faults.append(Fault(end + 1, "no text below the front matter"))
    return sorted(faults)


def read_fields(head: list[str]) -> tuple[dict[str, Field], list[Fault]]:
    """Read the lines of the front matter, the first of which is line 2 of the file."""
    fields: dict[str, Field] = {}
    faults: list[Fault] = []
    for number, line in enumerate(head, start=2):
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not value:
            faults.append(Fault(number, f"expected 'key: value' but got {line!r}"))
        elif key not in KNOWN:
            faults.append(Fault(number, f"unknown field {key!r}"))
        elif key in fields:
            faults.append(Fault(number, f"second {key!r}"))
        else:
            fields[key] = Field(value, number)
    return fields, faults


def check_fields(fields: dict[str, Field], path: Path) -> Iterator[Fault]:
    """Check the fields against each other and against the file's place."""
    for key in NEEDED:
        if key not in fields:
            yield Fault(1, f"no field {key!r}")
    for key, (value, line) in fields.items():
        if key in RANGES:
            yield from check_range(key, value, line)
        elif key == "station" and value != path.absolute().parent.name:
            yield Fault(line, f"station {value!r} does not name the directory")
        elif key == "date":
            yield from check_date(value, line, path)
        elif key == "corrects":
            yield from check_corrects(value, line, path)


def check_range(key: str, value: str, line: int) -> Iterator[Fault]:
    """Check that a measured value is a number the instruments can show."""
    low, high = RANGES[key]
    try:
        fits = low <= float(value) <= high
    except ValueError:
        fits = False
    if not fits:
        yield Fault(line, f"{key} must be from {low:g} to {high:g} but is {value!r}")


def check_date(value: str, line: int, path: Path) -> Iterator[Fault]:
    """Check that the date is a real day and that the file is named after it."""
    try:
        day = date.fromisoformat(value).isoformat()
    except ValueError:
        yield Fault(line, f"{value!r} is not a date as YYYY-MM-DD")
        return
    if day != value:
        yield Fault(line, f"write the date as {day}")
    if path.stem != day and not path.stem.startswith(f"{day}-"):
        yield Fault(line, f"the file name does not start with {day}")


def check_corrects(value: str, line: int, path: Path) -> Iterator[Fault]:
    """Check that the corrected note is another one in the same directory."""
    if value == path.stem or not path.with_name(f"{value}.md").is_file():
        yield Fault(line, f"corrects {value!r}, which is no other note here")


def notes_below(path: Path) -> list[Path]:
    """Return `path` itself if it is a file, else the notes below it."""
    if path.is_file():
        return [path]
    return [
        note for note in sorted(path.rglob("*.md")) if ".halo" not in note.relative_to(path).parts
    ]


def main(arguments: list[str]) -> int:
    """Print the faults; return 0 if there are none, 1 if there are, 2 for a wrong path."""
    paths = [Path(argument) for argument in arguments or ["stations"]]
    absent = [path for path in paths if not path.exists()]
    for path in absent:
        print(f"{path}: no such file or directory", file=sys.stderr)
    if absent:
        return 2
    faults = [(note, fault) for path in paths for note in notes_below(path) for fault in lint(note)]
    for note, fault in faults:
        print(f"{note}:{fault.line}: {fault.text}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
