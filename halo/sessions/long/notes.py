"""Which lines of a model's answer become notes. Pure."""

import unicodedata
from typing import NamedTuple

NO_REPLY = "NO_REPLY"

MOST_LINES = 40  # that are kept of one answer
LONGEST = 400  # characters of a note
LARGEST_FILE = 256 * 1024  # bytes of the notes of a day

_BULLETS = ("- ", "* ", "+ ", "• ")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Notes(NamedTuple):
    """The notes that are new, and how many lines were refused, by why."""

    lines: tuple[str, ...]
    refused: dict[str, int]

    @property
    def skipped(self) -> str:
        """What was not kept, in words; empty where all was."""
        return ", ".join(f"{count} {why}" for why, count in self.refused.items())


def read_notes(answer: str, known: str) -> Notes:
    """Take the notes out of an answer; `known` is the file that they will be appended to.

    A line is a note. Headings are refused, for a file of notes has one author and no chapters; and so are
    fences, what is too long or too much, and what stands there already.
    """
    if answer.strip().upper() == NO_REPLY:
        return Notes((), {})
    seen = {_key(_plain(line)) for line in known.splitlines()}
    lines: list[str] = []
    refused: dict[str, int] = {}
    for line in answer.splitlines():
        note = _plain(line)
        if not note or note.upper() == NO_REPLY:
            continue
        why = _refusal(line, note)
        if not why and _key(note) in seen:
            why = "known already"
        if not why and len(lines) == MOST_LINES:
            why = "too many"
        if why:
            refused[why] = refused.get(why, 0) + 1
            continue
        seen.add(_key(note))
        lines.append(note)
    return Notes(tuple(lines), refused)


def written(notes: tuple[str, ...], known: str) -> str:
    """Return what is appended to a file that holds `known`; a line that broke off there is ended first."""
    if not notes:
        return ""
    begin = "\n" if known and not known.endswith("\n") else ""
    return begin + "".join(f"- {note}\n" for note in notes)


def _refusal(line: str, note: str) -> str:
    bare = line.strip()
    if bare.startswith("#") or note.startswith("#") or not bare.strip("=-_* "):
        return "headings or rules"
    if note.startswith(("```", "~~~", "<!--")):
        return "fences or comments"
    return "too long" if len(note) > LONGEST else ""


def _plain(line: str) -> str:
    """Return a line without its bullet, invisible characters and spare white space."""
    text = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in line).strip()
    while text.startswith(_BULLETS):
        text = text[2:].lstrip()
    return " ".join(text.split())


def _key(note: str) -> str:
    return note.rstrip(".").casefold()
