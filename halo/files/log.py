"""The append-only checked log, the truth of a session.

A line is a JSON object whose last field is a checksum of the rest:

    record  {"seq":1,"type":"message"}
    line    {"seq":1,"type":"message","crc":"9a1b…"}   and a newline

`crc` is CRC-32 (that of zlib) over the bytes of the record, in 8 lower-case hex digits. A log is never
truncated or rewritten: a torn line is closed by a newline, stays where it is, and costs itself alone.
"""

import errno
import os
import re
import stat as st_modes
from collections.abc import Iterator
from typing import Self
from zlib import crc32

import msgspec

from halo.errors import LogError
from halo.files import ops
from halo.files.closing import Closing
from halo.files.refusals import what_helps

TORN_TAIL = "torn tail"
DAMAGED = "checksum is absent or wrong"

_CRC = re.compile(rb',"crc":"[0-9a-f]{8}"\}')
_CRC_LENGTH = 18  # bytes that _CRC matches
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class LogLine(msgspec.Struct, frozen=True):
    """A line of a log: its number from 1, and either its record or what is wrong with it."""

    number: int
    record: bytes | None
    problem: str | None


def encode_line(record: bytes) -> bytes:
    """Return the line for `record`, a JSON object with at least one field and no line break (ValueError)."""
    if not record.startswith(b'{"') or not record.endswith(b"}") or b"\n" in record:
        raise ValueError(f"a record is a JSON object with a field, on one line, not {record[:80]!r}")
    return b'%b,"crc":"%08x"}\n' % (record[:-1], crc32(record))


def read_log(path: str) -> Iterator[LogLine]:
    """Yield the lines of a log one by one; memory holds one line at a time.

    A damaged line costs itself alone. A last line without its newline is good when its checksum is right
    and a "torn tail" otherwise (also while another process is writing it). Where a newline itself was
    damaged, the records around it have the same number. Raises LogError, at the first line, for a file that
    is absent, unreadable or not a regular one.
    """
    with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield from decode_line(number, line)
        except OSError as error:
            raise _unusable(path, error) from error


class CheckedLog(Closing):
    """A log that is open for appending by this process, which holds a lock elsewhere.

    After an `append` with `sync` has returned, the record survives a power loss.
    """

    def __init__(self, path: str, fd: int) -> None:
        """Use `CheckedLog.open`, which checks the file first."""
        self.path = path
        self._fd = fd
        self._maybe_torn = True
        # The process that made the file may have died before it synced the name, so every opener does.
        self._name_synced = False

    @classmethod
    def open(cls, path: str, *, create: bool = False) -> Self:
        """Open the log at `path`; with `create` it and its directories are made when it is absent.

        Raises LogError, and leaves the file as it is, when it is not a regular file, cannot be read, or is
        evidently something else than a log of this kind.
        """
        if create:
            _create(path)
        fd = _open(path, os.O_RDWR | os.O_APPEND)
        log = cls(path, fd)
        try:
            _refuse_foreign(path)
            log._close_torn_tail()
        except BaseException:
            log.close()
            raise
        return log

    def append(self, record: bytes, *, sync: bool = True) -> None:
        """Append one record (see `encode_line`), in one write where the system takes it whole.

        Raises LogError when the system refuses (a full disk): the record is then not acknowledged, though
        it may be there, and the next append first closes what may stand there of it.
        """
        line = encode_line(record)
        self._close_torn_tail()
        self._maybe_torn = True
        self._write(line)
        self._maybe_torn = False
        if sync:
            self.sync()

    def sync(self) -> None:
        """Bring all that was appended to the medium. Raises LogError."""
        try:
            ops.fsync(self._fd, self.path)
            if not self._name_synced:
                ops.fsync_dir(os.path.dirname(self.path))
                self._name_synced = True
        except OSError as error:
            raise _unusable(self.path, error) from error

    def close(self) -> None:
        """Close the file; a second time does nothing. Nothing is synced."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _close_torn_tail(self) -> None:
        """Set apart, by a newline, what a write that broke off has left at the end of the file."""
        if not self._maybe_torn:
            return
        try:
            size = os.lseek(self._fd, 0, os.SEEK_END)
            os.lseek(self._fd, max(size - 1, 0), os.SEEK_SET)
            torn = os.read(self._fd, 1) not in (b"\n", b"")
        except OSError as error:
            raise _unusable(self.path, error) from error
        if torn:
            self._write(b"\n")
        self._maybe_torn = False

    def _write(self, data: bytes) -> None:
        try:
            ops.write_all(self._fd, self.path, data)
        except OSError as error:
            raise _unusable(self.path, error) from error


def decode_line(number: int, line: bytes) -> Iterator[LogLine]:
    """Yield what stands in a line, which has its newline if there is one (see `read_log`)."""
    body = line.removesuffix(b"\n")
    record = record_of(body)
    if record is not None:
        yield LogLine(number, record, None)
        return
    # A damaged newline joins two good lines. They are taken apart behind every checksum that holds.
    start = 0
    for match in _CRC.finditer(body):
        record = record_of(body[start : match.end()])
        if record is not None:
            yield LogLine(number, record, None)
            start = match.end() + 1
    rest = record_of(body[start:]) if start else None
    if rest is not None:
        yield LogLine(number, rest, None)
    yield LogLine(number, None, DAMAGED if line.endswith(b"\n") else TORN_TAIL)


def record_of(body: bytes) -> bytes | None:
    """Return the record of a line without its newline, None when its checksum does not hold."""
    if body[-_CRC_LENGTH:-10] != b',"crc":"' or body[-2:] != b'"}':
        return None
    record = body[:-_CRC_LENGTH] + b"}"
    return record if b"%08x" % crc32(record) == body[-10:-2] else None


def _refuse_foreign(path: str) -> None:
    """Raise LogError for a file that has lines of which none is good and some cannot come from here."""
    foreign = False
    with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
        for number, line in enumerate(file, 1):
            if any(decoded.record is not None for decoded in decode_line(number, line)):
                return
            foreign = foreign or not _is_torn(line)
    if foreign:
        raise LogError(
            "holds lines, but none with a valid checksum: this is not an event log, or it is damaged",
            file=path,
            hint="nothing was written to it; restore it from a copy or move it away",
        )


def _is_torn(line: bytes) -> bool:
    """Say whether `line` is the beginning of a line that was torn off (and perhaps closed later).

    A log whose first appends all failed must stay usable. The beginning of a JSON object is not JSON, which
    tells it from the line of another program; a power loss leaves zeros.
    """
    if not line.startswith((b"{", b"\0")):
        return False
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True
    return False


def _create(path: str) -> None:
    try:
        ops.make_dirs(os.path.dirname(path), sync=True)
        os.close(ops.create(path, 0o644))
    except FileExistsError:
        pass  # a log to go on with, or something that `open` refuses
    except OSError as error:
        raise _unusable(path, error) from error


def _open(path: str, flags: int) -> int:
    """Open a log without waiting for a FIFO's other end. Raises LogError."""
    try:
        fd = os.open(path, flags | _SAFE)
    except FileNotFoundError as error:
        raise LogError("there is no log here", file=path, hint="check the id of the session") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _irregular(path) from error
        raise _unusable(path, error) from error
    if st_modes.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise _irregular(path)


def _irregular(path: str) -> LogError:
    return LogError(
        "is not a regular file", file=path, hint="move it away; logs are never reached by symlink"
    )


def _unusable(path: str, error: OSError) -> LogError:
    hint = what_helps(error) or "check the permissions of the file, and the disk"
    return LogError(f"cannot be used: {error.strerror}", file=path, hint=hint)
