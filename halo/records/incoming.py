"""Messages on their way into a session: one JSON file each in its `inbox/` (docs/reference/formats.md)."""

from typing import Literal

import msgspec

from halo.records.origins import Origin
from halo.records.targets import Access

FORMAT = 1

# What this version writes; it reads any word.
SenderKind = Literal["user", "agent", "report", "event", "internal"]
Interrupt = Literal["no", "soft", "hard"]


class Sender(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who wrote a message. What they may do travels with it, because it runs later and elsewhere.

    `kind`: a `user`, an `agent` in another session, the `report` of a session that was started from here, or
    an `event` (a timer, a hook), which is no interaction of a person; `internal`: Halo itself asks, and what
    it asks is never delivered. `session` and `agent` are those of the sender; `name` and `id` say who it is
    on its channel. A turn may do at most `access`; `owner` may use what is the owner's alone.
    """

    kind: str
    session: str = ""
    agent: str = ""
    id: str = ""
    name: str = ""
    access: Access = "full"
    owner: bool = False


class Incoming(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that waits for a session.

    `id` makes it exactly-once: a session takes each id one time, however often it is put into the inbox.
    `at` is ISO 8601 in UTC. `interrupt` says what it does to a turn that runs: `no` waits for its end, `soft`
    for the end of the tool that runs, `hard` breaks it off. `rounds` counts the answers that two sessions
    have exchanged since one of them began. `quiet`: it starts no turn, but waits until something else does.
    """

    format: int
    id: str
    at: str
    text: str
    sender: Sender
    interrupt: str = "no"
    rounds: int = 0
    quiet: bool = False
    origin: Origin | None = None


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a recorded message, or a part of a merged one, came from: its id in the inbox, and its sender."""

    id: str
    sender: Sender
    rounds: int = 0
    origin: Origin | None = None
