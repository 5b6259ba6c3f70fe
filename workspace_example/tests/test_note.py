"""Reading a note."""

import unittest
from datetime import date

from fieldnotes import NoteError, parse_note

HEAD = "---\nstation: upper\ndate: 2025-05-12\nobserver: mk\nlevel_cm: 82\n"


class ParseNote(unittest.TestCase):
    """`parse_note`."""

    def test_reads_fields_and_text(self) -> None:
        """Numbers and dates are typed, the text is trimmed."""
        note = parse_note(HEAD + "temp_c: 9.5\n---\n\nClear water.\n", "2025-05-12")
        self.assertEqual((note.level_cm, note.temp_c), (82.0, 9.5))
        self.assertEqual((note.day, note.text), (date(2025, 5, 12), "Clear water."))

    def test_temperature_may_be_absent(self) -> None:
        """Not every visit takes a temperature."""
        self.assertIsNone(parse_note(HEAD + "---\n", "n").temp_c)

    def test_names_the_missing_field(self) -> None:
        """The message says which file and which field."""
        with self.assertRaisesRegex(NoteError, "n: .*'level_cm'"):
            parse_note(HEAD.replace("level_cm: 82\n", "") + "---\n", "n")

    def test_needs_front_matter(self) -> None:
        """Plain text is not a note."""
        with self.assertRaises(NoteError):
            parse_note("Clear water.\n", "n")


if __name__ == "__main__":
    unittest.main()
