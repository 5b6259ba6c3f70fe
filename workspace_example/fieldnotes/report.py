"""Summarise the notes of one station as Markdown."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fieldnotes.note import Note


class Units(StrEnum):
    """Units of measurement in a report."""

    METRIC = "metric"
    US = "us"

    def level(self, centimetres: float) -> str:
        """Write a water level, in centimetres or feet."""
        return f"{centimetres:.0f} cm" if self is Units.METRIC else f"{centimetres / 30.48:.2f} ft"

    def temperature(self, celsius: float | None) -> str:
        """Write a water temperature, in Celsius or Fahrenheit; `-` if none was taken."""
        if celsius is None:
            return "-"
        return f"{celsius:.1f} C" if self is Units.METRIC else f"{celsius * 1.8 + 32:.1f} F"


def station_report(
    station: str,
    notes: Sequence[Note],
    *,
    units: Units = Units.METRIC,
    region: str = "",
    contact: str = "",
) -> str:
    """Write the report of `station` from its notes, which are in order of date."""
    title = f"# Station {station}, {region}" if region else f"# Station {station}"
    lines = [title, "", *_table(notes, units), "", *_summary(notes, units)]
    if contact:
        lines.append(f"- Contact: {contact}")
    return "\n".join(lines) + "\n"


def _table(notes: Sequence[Note], units: Units) -> list[str]:
    rows = [
        f"| {note.day} | {units.level(note.level_cm)} | {units.temperature(note.temp_c)} "
        f"| {note.observer} |"
        for note in notes
    ]
    return ["| date | level | water | observer |", "|---|---|---|---|", *rows]


def _summary(notes: Sequence[Note], units: Units) -> list[str]:
    if not notes:
        return ["- No notes."]
    highest = max(notes, key=lambda note: note.level_cm)
    lines = [f"- Highest: {units.level(highest.level_cm)} on {highest.day}"]
    if len(notes) > 1:
        change = notes[-1].level_cm - notes[-2].level_cm
        trend = "unchanged" if change == 0 else "rising" if change > 0 else "falling"
        lines.append(f"- Since the visit before: {trend}, {units.level(abs(change))}")
    return lines
