"""Follows a session's log while others write it."""

import os
from collections.abc import Iterator
from functools import partial

from halo.errors import LogError
from halo.files.closing import Closing
from halo.files.log import LogLine, decode_line
from halo.files.regular import open_regular
from halo.records.events import Event
from halo.sessions.attachments import fetch
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread, read_events

_BLOCK = 1 << 16  # bytes a read


class LogReader(Closing):
    """Reads the log of `folder` from its beginning on, and what is added since the last look.

    A line counts when its newline is there: what another process is about to write is not half read. Raises
    `LogError` for what is no log.
    """

    def __init__(self, folder: SessionFolder) -> None:
        self.folder = folder
        try:
            self._file = open_regular(folder.events)
        except OSError as error:
            raise LogError(f"cannot be read: {error.strerror}", file=folder.events) from error
        self._rest = b""
        self._number = 0

    def read(self) -> Iterator[Event | Unread]:
        """Yield what is new."""
        return read_events(self._lines(), partial(fetch, self.folder.path))

    def end(self) -> Iterator[Event | Unread]:
        """Yield what stands behind the last newline, for whoever does not wait for the rest of it."""
        rest, self._rest = self._rest, b""
        lines = decode_line(self._number + 1, rest) if rest else iter(())
        return read_events(lines, partial(fetch, self.folder.path))

    def gone(self) -> bool:
        """Tell whether the session was deleted."""
        try:
            return os.stat(self.folder.events).st_ino != os.fstat(self._file.fileno()).st_ino
        except OSError:
            return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> Iterator[LogLine]:
        while block := self._file.read(_BLOCK):
            *lines, self._rest = (self._rest + block).split(b"\n")
            for line in lines:
                self._number += 1
                yield from decode_line(self._number, line + b"\n")


class Turns:
    """Lets through the events of the last `turns` turns of `last`, and all behind the first of them."""

    def __init__(self, last: int, turns: int) -> None:
        self._from = max(1, last - turns + 1)
        self._begun = turns > 0 and last <= turns

    def shows(self, found: Event | Unread) -> bool:
        """Tell whether an event is among them; events come in their order."""
        event = found.event if isinstance(found, Unread) else found
        if event is not None and event.turn >= self._from:
            self._begun = True
        return self._begun
