"""Choosing notes and reporting on them."""

import unittest
from datetime import date

from fieldnotes import Note, Units, current, station_report


def visit(day: int, level_cm: float, corrects: str | None = None) -> Note:
    """Make a note of May 2025."""
    name = f"2025-05-{day:02}" + ("-corr" if corrects else "")
    return Note(name, "upper", date(2025, 5, day), "mk", level_cm, None, corrects, "")


class Report(unittest.TestCase):
    """`current` and `station_report`."""

    def test_corrected_note_does_not_count(self) -> None:
        """Only the correction is left."""
        wrong, right = visit(12, 282), visit(12, 82, corrects="2025-05-12")
        self.assertEqual(current([wrong, right]), [right])

    def test_summary(self) -> None:
        """The highest level and the change since the visit before."""
        report = station_report("upper", [visit(12, 82), visit(19, 74)])
        self.assertIn("- Highest: 82 cm on 2025-05-12", report)
        self.assertIn("- Since the visit before: falling, 8 cm", report)

    def test_units(self) -> None:
        """Feet and Fahrenheit on request."""
        self.assertEqual(Units.US.level(30.48), "1.00 ft")
        self.assertEqual(Units.US.temperature(10), "50.0 F")


if __name__ == "__main__":
    unittest.main()
