"""What was typed in the chats of a workspace, for the arrow keys: a file that its user alone can read.

It lies in Halo's home, never in the workspace. Values of secrets are masked, and what begins with a space is
not kept.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress

from halo.files.atomic import replace_file
from halo.files.digests import sha256
from halo.files.regular import read_regular

_FOLDER = "chat"
_MOST = 1_000  # entries that are kept
_LARGEST = 16 << 20  # bytes
_LONGEST = 10_000  # characters of an entry


class TypedHistory:
    """The history of a workspace, oldest first. What cannot be read or written costs the history alone."""

    def __init__(self, home: str, workspace: str, mask: Callable[[str], str]) -> None:
        self.path = os.path.join(home, _FOLDER, f"{sha256(os.fsencode(workspace))[:32]}.jsonl")
        self._mask = mask

    def load(self) -> list[str]:
        """Return the entries."""
        entries = self._read()
        if len(entries) > 2 * _MOST:
            entries = entries[-_MOST:]
            data = "".join(_line(entry) for entry in entries).encode()
            with suppress(OSError):
                replace_file(self.path, data, mode=0o600)
        return entries[-_MOST:]

    def add(self, text: str) -> None:
        """Keep what was typed."""
        if not text.strip() or text[0].isspace() or len(text) > _LONGEST:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            fd = os.open(self.path, flags, 0o600)
            with open(fd, "ab") as file:
                file.write(_line(self._mask(text)).encode())

    def _read(self) -> list[str]:
        try:
            lines = read_regular(self.path, _LARGEST).splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, str):
                    entries.append(entry)
        return entries


def _line(text: str) -> str:
    return json.dumps(text) + "\n"
