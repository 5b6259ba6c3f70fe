"""Notes of a session before its history is shortened: appended by the engine to `.halo/memory/<date>.md`.

The model is asked beside the conversation and has no tool for it: what it answers can only be appended.
"""

import datetime as dt
import os

from halo.files import ops
from halo.files.regular import read_regular, refuse_links
from halo.records.messages import Message, user
from halo.records.session_events import MemoryFlushed
from halo.records.targets import Access
from halo.sessions.desk import Desk
from halo.sessions.long.notes import LARGEST_FILE, NO_REPLY, read_notes, written
from halo.sessions.routing.clock import find_zone
from halo.sessions.secrets import known_secrets
from halo.sessions.standing import Standing
from halo.tools.secrets import masker

FOLDER = "memory"

_QUESTION = """\
This conversation is about to be shortened. Your answer to this message is appended to the notes of {day}; it
is not shown to the user, and is no part of the conversation.

Write down what will still matter in other conversations: what was decided and why, what the user prefers or
wants avoided, facts that took work to find out, names and identifiers exactly as they are written, promises
and dates. One note a line, in plain text, each to be understood by itself. No headings, no introduction,
nothing that stands in files anyway, no secrets. Call no tools.

If there is nothing of that kind, answer {no_reply}."""

_APPEND = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class Memory:
    """Where the notes of one session go (`halo.runner.context.flushing.Flush`)."""

    def __init__(self, desk: Desk, standing: Standing, access: Access) -> None:
        self._desk, self._standing, self._access = desk, standing, access
        self._halo = desk.builder.places.halo
        self._day = ""

    def begin(self) -> Message | MemoryFlushed | None:
        """Return what the model is asked: once until messages are left out, where notes can be written."""
        if self._standing.flushed:
            return None
        refusal = self._refusal()
        if refusal:
            return MemoryFlushed(skipped=refusal)
        self._day = user_day(self._desk.now_ns(), self._desk.zone_name())
        return user(_QUESTION.format(day=self._day, no_reply=NO_REPLY))

    def keep(self, text: str) -> MemoryFlushed:
        """Append the notes of an answer. A file that takes none is a reason, and no error."""
        name = f".halo/{FOLDER}/{self._day}.md"
        mask = masker(known_secrets(self._desk.tree, self._desk.environ, self._desk.grants()))
        path = os.path.join(self._halo, FOLDER, f"{self._day}.md")
        try:
            refuse_links(self._halo, FOLDER)
            known = _read(path)
            notes = read_notes(mask(text), known)
            data = written(notes.lines, known).encode()
            if not notes.lines:
                return MemoryFlushed(skipped=notes.skipped or "nothing to note")
            if len(known.encode()) + len(data) > LARGEST_FILE:
                return MemoryFlushed(skipped=f"{name} is full")
            _append(path, data)
        except (OSError, UnicodeError) as error:
            return MemoryFlushed(skipped=f"{name} takes no notes: {_words(error)}")
        return MemoryFlushed(name, len(notes.lines), notes.skipped)

    def _refusal(self) -> str:
        """Say why no notes can be written; asked before the model is, which costs something."""
        if self._access == "readonly":
            return "the session may only read"
        if self._desk.files is not None:
            return "the files are in memory"
        folder = os.path.join(self._halo, FOLDER)
        there = folder if os.path.isdir(folder) else self._halo
        return "" if os.access(there, os.W_OK | os.X_OK) else "the workspace cannot be written"


def user_day(now_ns: int, zone: str) -> str:
    """Return the date in the user's zone (an IANA name, in UTC if it is unknown), such as 2026-10-02."""
    found, _ = find_zone(zone)
    return f"{dt.datetime.fromtimestamp(now_ns / 1e9, found):%Y-%m-%d}"


def _read(path: str) -> str:
    try:
        return read_regular(path, LARGEST_FILE).decode()
    except FileNotFoundError:
        return ""


def _append(path: str, data: bytes) -> None:
    """Append at the end, whatever another process has put there, and keep it through a power loss."""
    new = not os.path.lexists(path)
    ops.make_dirs(os.path.dirname(path), sync=True)
    descriptor = os.open(path, _APPEND, 0o644)
    try:
        ops.write_all(descriptor, path, data)
        ops.fsync(descriptor, path)
    finally:
        os.close(descriptor)
    if new:
        ops.fsync_dir(os.path.dirname(path))


def _words(error: OSError | UnicodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
