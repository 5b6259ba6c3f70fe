"""Kills processes that run sessions, at random moments, until all is done; then looks at what is left.

    python tests/crashing.py --seed 1 --kills 100

One process that has imported everything forks those that work: workers (turns with tools, delegation,
compaction) and senders. Each is killed after a random time, behind a record of a random type, or at a random
operation on the disk: before it, behind it, or in the middle of a write. What a process has acknowledged it says through a pipe. A failure names
the seed of its round; `--only SEED` plays that round alone (moments in time are not the same again, operations
nearly are).
"""

import argparse
import asyncio
import contextlib
import faulthandler
import os
import random
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from crash_checks import Failed, Known, check, check_done, checksum
from crash_office import Workspace

from halo.errors import BusyError
from halo.files import ops
from halo.models.adapter import Notice
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded
from halo.records.session_events import ChildStarted, SessionCreated
from halo.records.stops import FORMAT as STOP
from halo.records.stops import Stop
from halo.sessions.choice import choose
from halo.sessions.engine.engine import Engine
from halo.sessions.engine.worker import Worker
from halo.sessions.find import session_ids
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.control import request_stop
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.index.lookup import headers
from halo.sessions.receiving import receive
from halo.sessions.routing.inbound import Inbound
from halo.sessions.sending import send
from halo.sessions.talk import typed
from halo.tools.threads import ToolThreads

OPERATIONS = (
    "create",
    "write",
    "fsync",
    "fsync_dir",
    "rename",
    "rename_folder",
    "link",
    "mkdir",
    "unlink",
    "rmdir",
)
PATIENCE = 60.0  # seconds; a process that takes longer hangs
KILLS_A_ROUND = 6
PUT = "put"
# Behind each of these something has to follow, here or in another session.
RECORDS = (
    PUT,
    *("answer.taken", "child.removed", "child.started", "context.shortened", "memory.flushed", "report.sent"),
    *(
        "delivery",
        "delivery.due",
        "session.changed",
        "session.created",
        "tool.result",
        "turn.ended",
        "turn.started",
    ),
)


class Death(NamedTuple):
    """When a process is killed: after so many seconds, at an operation, or behind a record of a type.

    A message that was put is such a record, too.
    """

    how: str = ""  # time, before, behind, within, record
    when: float = 0
    record: str = ""

    def at(self, record: str) -> None:
        """Die where this record is the one."""
        if self.how == "record" and self.record == record:
            os.kill(os.getpid(), signal.SIGKILL)


class Process(NamedTuple):
    pid: int
    pipe: int
    death: Death
    began: float
    errors: Path


# In the processes that are killed.


def dying(death: Death, count: list[int]) -> None:
    """Count operations, and die at the one that was chosen."""

    def wrapped(name, real):
        def call(*arguments, **options):
            count[0] += 1
            if death.how != "record" and count[0] >= death.when:
                if death.how == "within" and name == "write":
                    os.write(arguments[0], bytes(arguments[2][: len(arguments[2]) // 2]))
                    os.kill(os.getpid(), signal.SIGKILL)
                if death.how == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if count[0] >= death.when and death.how == "behind":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in OPERATIONS:
        setattr(ops, name, wrapped(name, getattr(ops, name)))


def acknowledging(tell: Callable[..., None], death: Death) -> None:
    """Say of every event that was appended, and of every message that was put, that it was; then die, perhaps."""
    append, put = OpenSession.append, Inbox.put

    def appended(session, data, *, turn=None):
        event = append(session, data, turn=turn)
        tell("event", session.folder.id, event.seq, checksum(event))
        match data:
            case MessageAdded():
                tell("calls", [call.id for call in data.message.calls])
            case ChildStarted(cleanup="delete"):
                tell("passing", data.session)
            case SessionCreated(parent=parent) if parent:
                tell("parent", session.folder.id, parent)
        death.at(event.type)
        return event

    def was_put(inbox, message, now_ns, **options):
        new = put(inbox, message, now_ns, **options)
        tell("put", os.path.basename(os.path.dirname(inbox.path)), message.id)
        death.at(PUT)
        return new

    OpenSession.append, Inbox.put = appended, was_put


def work(ws: Workspace, seed: str, dice: random.Random, tell: Callable[..., None]) -> None:
    """Run what waits, as a worker; the first one begins a session, as `halo run` does."""

    def show(session, event):
        if isinstance(event, Notice) and "ended with an error" in event.text:
            tell("error", f"{session}: {event.text}")

    async def go():
        asyncio.get_running_loop().set_default_executor(ToolThreads())
        desk = ws.desk(seed, dice.randrange(-300, 300) * 10**9)
        engine = Engine(desk, show)
        if dice.random() < 0.3 or not any(session_ids(ws.sessions)):
            choice = choose(
                ws.sessions, "lead", "cli", home=ws.places.home, named=None, new=dice.random() < 0.3
            )
            with contextlib.suppress(BusyError):  # another one has it
                await engine.run(choice, typed(f"JOB {dice.choice((1, 2))}", desk.now_ns()))
        worker = Worker(engine, ws.places.home, lambda text: tell("error", text), time.monotonic)
        if dice.random() < 0.2:
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(0.3, stop.set)
            await worker.run(stop)
        else:
            await worker.drain()
        await worker.close()

    asyncio.run(go())


def write_to(ws: Workspace, seed: str, dice: random.Random, tell: Callable[..., None]) -> None:
    """Send messages to sessions that are there, from another process; sometimes stop one."""
    desk = ws.desk(seed, dice.randrange(-300, 300) * 10**9)
    for number in range(dice.randrange(1, 4)):
        time.sleep(dice.random() * 0.1)
        found = sorted((h for h in headers(ws.sessions) if h.seq), key=lambda h: h.id)
        roots = [header.id for header in found if not header.parent]
        if not roots:
            continue
        if dice.random() < 0.3:  # somebody writes by a channel, and is answered there
            inbound = Inbound("outbox", peer="mira", text=f"JOB {dice.choice((0, 1, 2))}", authorised=True)
            receive(desk, "lead", inbound, message_id=f"{seed} {number}")
            continue
        if dice.random() < 0.1:
            name = dice.choice(found).id
            request_stop(SessionFolder(ws.sessions, name).path, Stop(STOP, "", "the owner"))
            mark(ws.sessions, name)
            continue
        interrupt = dice.choice(("no", "no", "soft", "hard"))
        key = dice.choice(("", f"{seed} {number}"))  # whoever is killed sends it once more
        send(desk, dice.choice(roots), f"JOB {dice.choice((0, 1, 2))}", interrupt=interrupt, message_id=key)
    tell("done")


# Around them.


class Harness:
    """Rounds of kills in one workspace each. `known` is what the dead of a round have acknowledged."""

    def __init__(self, base: Path, folder: Path) -> None:
        self.base, self.folder = base, folder
        self.kills = 0
        self.operations, self.seconds = 150.0, 0.3  # of a process that lives; learnt as it goes on
        self.seen: Counter[str] = Counter()
        self._number = 0

    def round(self, seed: str) -> None:
        """Kill processes until enough died, let the last come to its end, and look at all."""
        dice = random.Random(seed)
        folder = self.folder / seed
        shutil.copytree(self.base, folder, symlinks=True)
        ws, known, killed = Workspace(folder).trust(), Known.nothing(), 0
        for step in range(4 * KILLS_A_ROUND):
            processes = [
                self._fork(ws, f"{seed}.{step}.{n}", job, self._death(dice))
                for n, job in enumerate(
                    [work, *[dice.choice((work, write_to, write_to))] * dice.randrange(2)]
                )
            ]
            killed += self._wait(processes, known)
            check(ws, known, killed)
            if killed >= KILLS_A_ROUND:
                break
        self.kills += killed
        for step in range(2):  # the second takes what was to be done again when the first ended
            self._wait([self._fork(ws, f"{seed}.end.{step}", work_only, Death())], known)
        logs = check(ws, known, killed)
        check_done(ws, known, logs)
        self._go_on(ws, seed, known, logs)
        for log in logs.values():
            self.seen.update(event.type for event in log.events)
            self.seen.update(f"ended {data.reason}" for data in log.of(TurnEnded))
            self.seen["torn lines"] += len(log.unread)
            self.seen["calls interrupted"] += sum(data.mended for data in log.of(ToolResultAdded))
        self.seen["sessions"] += len(logs)
        self.seen["sessions deleted"] += len(known.events.keys() - logs.keys())
        shutil.rmtree(folder)

    def _go_on(self, ws, seed, known, logs) -> None:
        """The conversations continue: each takes a message, and answers it."""
        roots = [name for name, log in logs.items() if log.created and not log.parent]
        desk = ws.desk(seed)
        for name in roots:
            send(desk, name, "And on.", interrupt="no", message_id="last")
        self._wait([self._fork(ws, f"{seed}.on", work_only, Death())], known)
        logs = check(ws, known, KILLS_A_ROUND * 2)
        for name in roots:
            conversation = logs[name].folder.read()
            if "sent:last" not in conversation.standing.taken or conversation.ended.reason != "done":
                raise Failed(f"{name} does not go on: {conversation.ended}")

    def _death(self, dice: random.Random) -> Death:
        how = dice.choice(("time", "before", "behind", "within", "record", "record", ""))
        if how == "time":
            return Death(how, dice.random() * 1.5 * self.seconds)
        if how == "record":
            return Death(how, record=dice.choice(RECORDS))
        return Death(how, dice.randrange(1, max(20, int(1.5 * self.operations)))) if how else Death()

    def _fork(self, ws, seed, job, death) -> Process:
        self._number += 1
        errors = self.folder / f"errors.{self._number}"
        reading, writing = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writing)
            os.set_blocking(reading, False)
            return Process(pid, reading, death, time.monotonic(), errors)
        code = 1
        try:
            os.close(reading)
            with errors.open("w") as file:
                os.dup2(file.fileno(), 2)
            faulthandler.register(signal.SIGUSR1, all_threads=True)
            count = [0]

            def tell(*words):
                os.write(writing, msgspec.json.encode(words) + b"\n")

            ws.note()
            acknowledging(tell, death)
            dying(death, count)
            job(ws, seed, random.Random(seed), tell)
            tell("operations", count[0])
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def _wait(self, processes: list[Process], known: Known) -> int:
        """Wait for processes, kill those that are to die in time, and return how many were killed."""
        killed, said = 0, {process: bytearray() for process in processes}
        with selectors.DefaultSelector() as selector:
            for process in processes:
                selector.register(process.pipe, selectors.EVENT_READ, process)
            while selector.get_map():
                for key, _ in selector.select(0.005):
                    data = os.read(key.fd, 65_536)
                    said[key.data] += data
                    if not data:
                        selector.unregister(key.fd)
                now = time.monotonic()
                for process in processes:
                    self._late(process, now - process.began, selector)
        problems = []
        for process in processes:
            os.close(process.pipe)
            code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
            killed += code == -signal.SIGKILL
            problems += self._take(process, bytes(said[process]), known)
            if code not in (0, -signal.SIGKILL):
                problems.append(process.errors.read_text()[-4_000:])
            process.errors.unlink(missing_ok=True)
        if problems:
            raise Failed("\n".join(problems))
        return killed

    def _late(self, process: Process, seconds: float, selector) -> None:
        if process.pipe not in selector.get_map():
            return
        if process.death.how == "time" and seconds > process.death.when:
            os.kill(process.pid, signal.SIGKILL)
        if seconds > PATIENCE:
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.5)
            os.kill(process.pid, signal.SIGKILL)
            raise Failed(f"a process hangs:\n{process.errors.read_text()[-8_000:]}")

    def _take(self, process: Process, said: bytes, known: Known) -> list[str]:
        problems = []
        for line in said.split(b"\n")[:-1]:
            match msgspec.json.decode(line):
                case ["event", session, seq, crc]:
                    if known.events[session].setdefault(seq, crc) != crc:
                        problems.append(f"two events of {session} have the number {seq}")
                case ["calls", calls]:
                    known.calls.update(calls)
                case ["passing", session]:
                    known.passing.add(session)
                case ["parent", session, parent]:
                    known.parents[session] = parent
                case ["put", session, message]:
                    known.put[session].add(message)
                case ["error", text]:
                    problems.append(text)
                case ["operations", count]:
                    self.operations += (count - self.operations) / 8
                    self.seconds += (time.monotonic() - process.began - self.seconds) / 8
        return problems


def work_only(ws, seed, dice, tell) -> None:
    """Run what waits, and begin nothing."""
    dice.random = lambda: 1.0
    work(ws, seed, dice, tell)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", help="play this round alone")
    parser.add_argument("--keep", action="store_true", help="leave the folder of a round that failed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="halo-crash-"))
    base = folder / "base"
    base.mkdir()
    Workspace(base).make()
    harness, number = Harness(base, folder), 0
    began = time.monotonic()
    try:
        while harness.kills < options.kills:
            seed = options.only or f"{options.seed}.{number}"
            number += 1
            try:
                harness.round(seed)
            except Failed as failed:
                print(f"round {seed} failed: {failed}", file=sys.stderr)
                if options.keep:
                    print(folder / seed, file=sys.stderr)
                return 1
            if options.only:
                break
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    print(f"{harness.kills} kills in {number} rounds, {time.monotonic() - began:.1f} s; nothing is lost")
    print(msgspec.json.format(msgspec.json.encode(dict(sorted(harness.seen.items())))).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
