"""`inbox/` of a session: messages that wait, one file each, in the order of their names.

    inbox/01764565200000000000-7k3f9q….json

The number is the time of arrival in ns since the epoch (a clock that went back goes on from the last one),
the rest the digest of the message's id. Whoever puts a message has it on disk when `put` returns. Whoever
takes some writes them into the log first and removes the files then; a crash between the two leaves files
whose ids the log knows, so that each message is taken once.
"""

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from halo.errors import BusyError, LogError
from halo.files import ops
from halo.files.atomic import create_file
from halo.files.canonical import readable_json
from halo.files.digests import sha256
from halo.files.regular import read_regular, refuse_links
from halo.records.incoming import FORMAT, Incoming
from halo.records.origins import Origin

FOLDER = "inbox"
BOUND = 256  # messages that may wait for one session
LARGEST = 4 << 20  # bytes of a message, as a file
_LATEST = 10**20 - 10**9  # ns since the epoch: the number in a name has 20 digits

_NAME = re.compile(r"(?P<ns>\d{20})-(?P<id>[0-9a-f]{32})\.json\Z")


class Waiting(NamedTuple):
    """A message that waits, and the name of its file."""

    name: str
    message: Incoming


class Inbox:
    """The inbox of the session whose folder is `session`."""

    def __init__(self, session: str) -> None:
        self._session = session
        self.path = os.path.join(session, FOLDER)

    def put(self, message: Incoming, now_ns: int, *, bound: int | None = BOUND) -> bool:
        """Add a message; False when one with its id waits already. It survives a power loss.

        Raises `BusyError` when `bound` messages wait (None: however many), `LogError` for one that is too
        large and for a session that is gone, and OSError.
        """
        refuse_links(self._session, FOLDER)
        data = readable_json(message)
        if len(data) > LARGEST:
            raise LogError(
                f"the message is too large for an inbox ({len(data):,} bytes; at most {LARGEST:,})",
                hint="put the text into a file and name it",
            )
        try:
            return self._put(message.id, data, now_ns, bound)
        except FileNotFoundError as error:
            raise LogError(
                "there is no session here any more",
                file=self._session,
                hint="it was deleted; begin another one",
            ) from error

    def _put(self, message_id: str, data: bytes, now_ns: int, bound: int | None) -> bool:
        with suppress(FileExistsError):
            ops.mkdir(self.path)
        # Whoever made the folder may have died before its name was synced.
        ops.fsync_dir(self._session)
        digest = sha256(message_id.encode())[:32]
        names = self.names()
        if any(name.endswith(f"-{digest}.json") for name in names):
            return False
        if bound is not None and len(names) >= bound:
            raise BusyError(
                f"the session has {len(names)} messages waiting, which is the most",
                file=self.path,
                hint="wait until they are taken: halo worker takes those of a whole workspace",
            )
        last = int(names[-1][:20]) if names else 0
        # A name with a time that no clock shows is no reason to go beyond what can be sorted.
        arrival = max(now_ns, last + 1 if last < _LATEST else 0)
        # Without its folder: who deletes the session looks for messages, and none may come behind that.
        while not create_file(self._file(arrival, digest), data, sync=True, folders=False):
            arrival += 1
        return True

    def _file(self, arrival: int, digest: str) -> str:
        return os.path.join(self.path, f"{arrival:020d}-{digest}.json")

    def waiting(self, *, but: Collection[str] = ()) -> tuple[list[Waiting], list[str]]:
        """Return the messages that wait, in order, and what is wrong with files that cannot be read.

        Those stay where they are: they may be of a newer version of Halo. The files `but` are left out.
        """
        found, problems = [], []
        for name in self.names():
            if name in but:
                continue
            try:
                data = read_regular(os.path.join(self.path, name), LARGEST)
                message = msgspec.json.decode(data, type=Incoming)
            except FileNotFoundError:
                continue  # taken meanwhile
            except (OSError, msgspec.MsgspecError, RecursionError) as error:
                problems.append(f"{FOLDER}/{name}: {error}")
                continue
            if message.format > FORMAT:
                problems.append(f"{FOLDER}/{name} has format {message.format}, of a newer version of Halo")
            else:
                found.append(Waiting(name, message))
        return found, problems

    def remove(self, names: list[str]) -> None:
        """Remove messages that are in the log; one that is gone is gone. Raises OSError."""
        for name in names:
            if _NAME.match(name):
                with suppress(FileNotFoundError):
                    ops.unlink(os.path.join(self.path, name))

    def stamp(self) -> int:
        """Return a number that changes when messages are put or removed; 0 without a folder."""
        try:
            return os.stat(self.path).st_mtime_ns
        except OSError:
            return 0

    def count(self) -> int:
        """Return how many messages wait."""
        return len(self.names())

    def names(self) -> list[str]:
        """Return the names of the files of messages, in the order of arrival."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if _NAME.match(name))


def starts_turn(messages: Iterable[Incoming], *, stopped: bool) -> bool:
    """Tell whether a turn begins with these; a report does not set a `stopped` session going again."""
    return any(not m.quiet and not (stopped and m.sender.kind == "report") for m in messages)


def together(messages: list[Incoming]) -> list[Incoming]:
    """Return the messages that become one turn: from the first on while their senders may do the same.

    All who wrote hear the answer, so what people wrote goes together only if they read it in the same place.
    """
    batch, where = messages[:1], _place(messages[0]) if messages else None
    for message in messages[1:]:
        place = _place(message)
        if message.sender.access != batch[0].sender.access or (where and place and place != where):
            break
        batch.append(message)
        where = where or place
    return batch


def _place(message: Incoming) -> tuple[str, ...] | None:
    """Return where a person reads the answer: here, or at an address of a channel; None for programs."""
    if message.sender.kind != "user":
        return None
    origin = message.origin or Origin()
    return (origin.provider, origin.account, origin.to or origin.sender, origin.thread)
