"""What sessions cost beyond the disk: appending, opening, listing, queueing, cutting answers into messages.

    python benchmarks/sessions.py [--quick] [--folder FOLDER]

Prints a table; each row has its floor beside it, measured in turns with it on the same file system:

- append: an event on disk, against `write` and `fsync` of the same bytes.
- open: take a session with so many events, fold it and let it go, against reading the bytes of its log, and
  against decoding each line with the standard library and taking its sum, as any reader has to.
- list: all sessions by the index, against listing the folder and a stat of each log, by which one sees that
  a row is of the log as it is; and once without an index.
- queue: put a message and take it, against create, write, fsync, unlink, and an fsync of the folder.
- chunker: `benchmarks/chunker.py`, its answer in deltas of 64 characters, against slicing it.

Appending and queueing, which wait for the disk, are wall time, the rest CPU time with the files in the cache.
With --quick in small sizes: less than 20 seconds. Exits 1 when something is not there that was written.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

import msgspec
from chunker import ANSWER, fed, sliced

from halo.files.log import encode_line
from halo.records.events import FORMAT, NAMES, Event, EventData, MessageAdded, TurnEnded, TurnStarted
from halo.records.incoming import FORMAT as INCOMING
from halo.records.incoming import Incoming, Sender
from halo.records.messages import Message, Text, user
from halo.records.session_events import SessionCreated, SessionTarget
from halo.sessions.delivery.chunks import ChunkConfig
from halo.sessions.folder import SessionFolder
from halo.sessions.ids import new_session_id, timestamp
from halo.sessions.inbox.folder import Inbox
from halo.sessions.index.lookup import headers

NOW = 1_790_000_000_000_000_000
PROSE = "The station at Oban reported wind of 12 m/s; then it fell silent for an hour, and nobody asked. "


class Row(NamedTuple):
    """One line of the table; times in ms, speeds in MB/s."""

    what: str
    halo: float
    floor: float
    unit: str = "ms"
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times the floor it takes."""
        return self.halo / self.floor if self.unit == "ms" else self.floor / self.halo


def ms(action: Callable[[], object], rounds: int) -> float:
    """Return the CPU time of an action that waits for nothing, user and system: the median of some rounds."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        action()
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times)


def created(session_id: str) -> SessionCreated:
    return SessionCreated(session_id, SessionTarget("agent", "default"), "cli")


def log_of(session_id: str, events: int) -> bytes:
    """Return the log of a session with so many events: turns of four, a message each way."""
    lines = []
    turn: tuple[EventData, ...] = (
        TurnStarted("a" * 40, "f" * 64),
        MessageAdded(user(PROSE * 2)),
        MessageAdded(Message("assistant", (Text(PROSE * 4),))),
        TurnEnded("done"),
    )
    for seq in range(1, events + 1):
        data = created(session_id) if seq == 1 else turn[(seq - 2) % 4]
        raw = msgspec.Raw(msgspec.json.encode(data))
        event = Event(FORMAT, seq, timestamp(NOW), NAMES[type(data)], (seq + 2) // 4, raw)
        lines.append(encode_line(msgspec.json.encode(event)))
    return b"".join(lines)


def make(sessions: str, number: int, events: int) -> SessionFolder:
    """Write a session without asking Halo."""
    folder = SessionFolder(sessions, new_session_id(NOW + number * 10**9, number.to_bytes(6, "big")))
    os.makedirs(folder.path)
    with open(folder.events, "wb") as file:
        file.write(log_of(folder.id, events))
    return folder


def append(folder: str, many: int) -> Row:
    """Append an event, and the same bytes without Halo, one after the other."""
    session_folder = make(os.path.join(folder, "append"), 0, 1)
    said = MessageAdded(user(PROSE * 2))
    ours, bare = [], []
    with session_folder.open(lambda: NOW) as session, open(os.path.join(folder, "bare"), "ab", 0) as file:
        session.append(said)
        line = b"x" * (os.path.getsize(session_folder.events) // 2)
        for _ in range(many):
            began = time.perf_counter()
            file.write(line)
            os.fsync(file.fileno())
            between = time.perf_counter()
            session.append(said)
            ours.append((time.perf_counter() - between) * 1000)
            bare.append((between - began) * 1000)
    if session_folder.read().seq != many + 2:
        sys.exit("events are missing")
    return Row("append an event", statistics.median(ours), statistics.median(bare), note="write + fsync")


def opened(folder: str, events: int) -> list[Row]:
    """Open a session of so many events."""
    session_folder = make(os.path.join(folder, f"open{events}"), 0, events)
    rounds = 9 if events <= 10_000 else 3

    def halo() -> None:
        with session_folder.open(lambda: NOW) as session:
            if session.conversation.seq < events:
                sys.exit("events are missing")

    def read() -> None:
        with open(session_folder.events, "rb") as file:
            file.read()

    def decode() -> None:
        with open(session_folder.events, "rb") as file:
            for line in file:
                crc32(line)
                json.loads(line)

    halo()  # mends the last turn
    ours, size = ms(halo, rounds), os.path.getsize(session_folder.events)
    return [
        Row(
            f"open {events:,} events, {size / 1e3:,.0f} KB", ours, ms(read, rounds), note="reading the bytes"
        ),
        Row(f"open {events:,} events", ours, ms(decode, rounds), note="`json.loads` and a sum of each line"),
    ]


def listing(folder: str, many: int) -> list[Row]:
    """List all sessions, by the index."""
    sessions = os.path.join(folder, "list")
    for number in range(many):
        make(sessions, number, 5)

    def halo() -> None:
        if sum(1 for _ in headers(sessions)) != many:
            sys.exit("sessions are missing")

    def stats() -> None:
        for month in os.listdir(sessions):
            fd = os.open(os.path.join(sessions, month), os.O_RDONLY)
            for name in os.listdir(fd):
                try:
                    os.stat(f"{name}/events.jsonl", dir_fd=fd)
                except OSError:
                    continue
            os.close(fd)

    first = ms(halo, 1)
    floor = ms(stats, 3)
    return [
        Row(f"list {many:,} sessions", ms(halo, 3), floor, note="a stat of each log"),
        Row(f"list {many:,} sessions, no index yet", first, floor, note="a stat of each log"),
    ]


def queue(folder: str, many: int) -> Row:
    """Put a message and take it, and make a file and remove it."""
    session_folder = make(os.path.join(folder, "queue"), 0, 1)
    inbox = Inbox(session_folder.path)
    bare = os.path.join(folder, "bare-queue")
    os.mkdir(bare)
    fd = os.open(bare, os.O_RDONLY)
    body = b"x" * 300
    ours, floors = [], []
    for number in range(many):
        message = Incoming(INCOMING, str(number), timestamp(NOW), PROSE, Sender("user", owner=True))
        began = time.perf_counter()
        with open(os.path.join(bare, "message"), "xb", 0) as file:
            file.write(body)
            os.fsync(file.fileno())
        os.fsync(fd)
        os.unlink(os.path.join(bare, "message"))
        between = time.perf_counter()
        inbox.put(message, NOW)
        waiting, _ = inbox.waiting()
        inbox.remove([found.name for found in waiting])
        ours.append((time.perf_counter() - between) * 1000)
        floors.append((between - began) * 1000)
        if [found.message.id for found in waiting] != [str(number)]:
            sys.exit("a message is missing")
    os.close(fd)
    name = "put and take a message"
    return Row(
        name, statistics.median(ours), statistics.median(floors), note="create, write, 2 fsync, unlink"
    )


def chunking(megabytes: float) -> Row:
    """Cut an answer that comes in deltas of a usual size."""
    text = ANSWER * max(1, int(megabytes * 1e6 / len(ANSWER)))
    config = ChunkConfig()
    ours = ms(lambda: fed(text, 64, config), 3)
    floor = ms(lambda: sliced(text, config.max_chars), 9)
    size = len(text) / 1e3
    return Row("cut an answer into messages", size / ours, size / floor, "MB/s", "slices of a string")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", help="where to measure; a temporary folder unless given")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="halo-sessions-", dir=options.folder)
    try:
        rows = [append(folder, 100 if options.quick else 1_000)]
        for events in (100, 10_000) if options.quick else (100, 10_000, 100_000):
            rows += opened(folder, events)
        rows += listing(folder, 2_000 if options.quick else 100_000)
        rows.append(queue(folder, 100 if options.quick else 1_000))
        rows.append(chunking(0.2 if options.quick else 1.0))
    finally:
        shutil.rmtree(folder)
    print("| what | halo | floor | times | the floor is |\n|---|---:|---:|---:|---|")
    for row in rows:
        values = (f"{value:,.2f} {row.unit}" for value in (row.halo, row.floor))
        print(f"| {row.what} | {' | '.join(values)} | {row.ratio:.1f} | {row.note} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
