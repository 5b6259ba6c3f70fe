"""Counts that were made once: `<cache>/tokens.txt`, a line for each text.

    o200k_base@bpe-openai-0.1.4 <SHA-256 of the text> 1204 <CRC-32 of what stands before it>

A text file that is appended to, because a count is small, worth little and never changes. A line is written
by one call, so that two processes do not disturb each other; a line that is torn or damaged fails its CRC and
is counted again; a file that has grown too large keeps its newer half. Two processes that shorten it at once
lose lines, which costs them a count. A database would take longer to import than this file takes to read.
"""

import os
import zlib
from collections.abc import Iterable, Mapping

from halo.files.atomic import replace_file
from halo.files.regular import read_regular

_LIMIT = 2 << 20  # bytes of the file; about 19,000 counts
_READ_LIMIT = 2 * _LIMIT  # a file that is larger was not written by this module


class CountCache:
    """The counts of a cache folder, read once, when they are first asked for.

    `who` is the identity of a tokenizer (no white space), `digest` the SHA-256 of what was counted. A file
    that cannot be read or written is like an empty one: it only saves time.
    """

    def __init__(self, folder: str, limit: int = _LIMIT) -> None:
        self._path = os.path.join(folder, "tokens.txt")
        self._limit = limit
        self._lines: dict[tuple[str, str], bytes] | None = None
        self._unusable = False

    def get(self, who: str, digests: Iterable[str]) -> dict[str, int]:
        """Return the counts that are known, by digest."""
        if self._lines is None:
            self._lines = self._read()
        found = {}
        for digest in digests:
            line = self._lines.get((who, digest))
            if line is not None and (number := _number(line)) is not None:
                found[digest] = number
        return found

    def put(self, who: str, counts: Mapping[str, int]) -> None:
        """Keep counts, by digest."""
        if self._lines is None:
            self._lines = self._read()
        fresh = {(who, digest): _line(who, digest, number) for digest, number in counts.items()}
        self._lines.update(fresh)
        if not fresh:
            return
        # A line break before the first line ends what another process may have left torn.
        data = b"\n" + b"".join(fresh.values())
        try:
            if self._unusable:
                replace_file(self._path, data, mode=0o600)
                self._unusable = False
            elif self._append(data) > self._limit:
                self._shorten()
        except OSError:
            return  # no space, no permission: the next process counts again

    def _read(self) -> dict[tuple[str, str], bytes]:
        try:
            data = read_regular(self._path, max(_READ_LIMIT, self._limit))
        except FileNotFoundError:
            return {}
        except OSError:
            self._unusable = True  # a link, a directory, a flood: replaced by the next count
            return {}
        lines = {}
        for line in data.splitlines(keepends=True):
            words = line.split(b" ", 2)
            if len(words) == 3:
                lines[words[0].decode(errors="replace"), words[1].decode(errors="replace")] = line
        return lines

    def _append(self, data: bytes) -> int:
        """Append in one call and return the size of the file then."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._path, flags | getattr(os, "O_BINARY", 0), 0o600)
        try:
            os.write(descriptor, data)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def _shorten(self) -> None:
        """Keep the newest lines that are whole, up to half of the limit."""
        kept: list[bytes] = []
        size = 0
        for line in reversed(self._read().values()):
            size += len(line)
            if size > self._limit // 2:
                break
            if _number(line) is not None:
                kept.append(line)
        replace_file(self._path, b"".join(reversed(kept)), mode=0o600)


def _line(who: str, digest: str, number: int) -> bytes:
    text = f"{who} {digest} {number}".encode()
    return text + b" %08x\n" % zlib.crc32(text)


def _number(line: bytes) -> int | None:
    """Return the count of a line; None when the line is not as it was written."""
    text, _, check = line.rpartition(b" ")
    if check != b"%08x\n" % zlib.crc32(text):
        return None
    number = text.rpartition(b" ")[2]
    return int(number) if number.isdigit() else None
