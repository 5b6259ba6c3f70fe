"""A session key: which conversation of which agent (docs/reference/session-keys.md)."""

from typing import Literal

import msgspec

from halo.errors import SessionKeyError
from halo.records.channels import channel_name
from halo.sessions.routing.escaping import escape, percent
from halo.workspace.ids import is_id

# What a key is for, threads aside.
Base = Literal["main", "direct", "group", "channel", "cron", "hook", "node", "spawned", "other"]
Kind = Base | Literal["thread"]
# The kinds that lists of sessions are filtered by.
Listed = Literal["main", "group", "cron", "hook", "node", "other"]

LINKED = "~"  # begins the name of a person whom identity links know: no id can, unescaped
NODE = "node-"
_LONGEST = 65_536  # characters of an id
_DEEPEST = 64  # segments above the last one
_PLACES = frozenset({"direct", "group", "channel"})


class SessionKey(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A key, taken apart. Ids are opaque: they keep their case, and are compared as they are.

    `peer` is who or what the session is for: a person (`linked`: one whom identity links name), a group, a
    channel's room, a job, a hook, a node, a spawned session, or another name. `above` are the segments before
    it of a spawned session (those that it is nested in) or another name. `run` is one run of a job.

    Construction raises `SessionKeyError` for what is no key, such as an empty peer.
    """

    agent: str
    base: Base = "main"
    channel: str = ""
    account: str = ""
    peer: str = ""
    topic: str = ""
    thread: str = ""
    linked: bool = False
    run: str = ""
    above: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what could not be written as text, or would read as another key."""
        if not is_id(self.agent):
            raise SessionKeyError(f"session key: {self.agent!a} is not the id of an agent")
        if self.base != "main" and not self.peer.strip():
            raise SessionKeyError(
                f"session key: {_what(self.base)} needs an id",
                hint="without one, strangers would share a session; the main session is agent:<id>:main",
            )
        self._check_place()
        for allowed, value in (
            (self.base != "main", self.peer),
            (self.base in ("group", "channel"), self.topic),
            (self.base == "cron", self.run),
            (self.base in ("spawned", "other"), self.above),
        ):
            if value and not allowed:
                raise SessionKeyError(f"session key: {value!a} does not belong to {_what(self.base)}")
        self._check_ids()

    def _check_place(self) -> None:
        if self.channel and (self.base not in _PLACES or channel_name(self.channel) != self.channel):
            raise SessionKeyError(f"session key: {self.channel!a} is not a channel here")
        if self.base == "channel" and not self.channel:
            raise SessionKeyError("session key: which channel is the room in?")
        if self.account and (self.base != "direct" or not self.channel):
            raise SessionKeyError("session key: an account stands behind its channel, before direct")
        if self.linked and (self.base != "direct" or self.channel):
            raise SessionKeyError("session key: a linked person has no channel")

    def _check_ids(self) -> None:
        given = {"account": self.account, "topic": self.topic, "thread": self.thread, "run": self.run}
        for name, value in given.items():
            if value and not value.strip():
                raise SessionKeyError(f"session key: the {name} is blank")
        if not all(self.above) or len(self.above) > _DEEPEST:
            raise SessionKeyError(f"session key: at most {_DEEPEST} segments above the last, none empty")
        if max(map(len, (self.peer, *given.values(), *self.above))) > _LONGEST:
            raise SessionKeyError(f"session key: an id has more than {_LONGEST:,} characters")

    @property
    def text(self) -> str:
        """The key as it is written: ASCII, one spelling a key, safe in a header and in a line of a list."""
        return f"agent:{self.agent}:{self.rest}"

    @property
    def rest(self) -> str:
        """The text behind `agent:<id>:`."""
        segments = self._segments()
        for word, value in (("run", self.run), ("topic", self.topic), ("thread", self.thread)):
            if value:
                segments += [word, escape(value)]
        return ":".join(segments)

    def _segments(self) -> list[str]:
        peer = escape(self.peer)
        match self.base:
            case "main":
                return ["main"]
            case "node":
                return [NODE + peer]
            case "spawned":
                return [s for each in (*self.above, self.peer) for s in ("subagent", escape(each))]
            case "other":
                segments = [escape(each) for each in (*self.above, self.peer)]
                if segments[0].lower().startswith(NODE):
                    segments[0] = percent(segments[0][0]) + segments[0][1:]
                return segments
        place = [self.channel] if self.channel else []
        account = [escape(self.account)] if self.account else []
        return [*place, *account, self.base, LINKED + peer if self.linked else peer]

    @property
    def kind(self) -> Kind:
        """What it is: `thread` for a thread or a topic, wherever that is."""
        return "thread" if self.thread or self.topic else self.base

    @property
    def listed(self) -> Listed:
        """The kind that lists show and filter by."""
        match self.base:
            case "group" | "channel":
                return "group"
            case "main" | "cron" | "hook" | "node":
                return self.base
        return "other"


def _what(base: Base) -> str:
    return {"direct": "a direct key", "other": "a name", "spawned": "a subagent key"}.get(
        base, f"a {base} key"
    )
