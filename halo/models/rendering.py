"""Renders histories that grow: what was rendered for an earlier request is not rendered again.

A conversation of ten thousand messages costs a call no more than one of ten. The rendered values of earlier
messages are the very same objects in each request, so that two requests are compared by identity first.
"""

import hashlib
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, NamedTuple

import msgspec

from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.records.messages import Message, Text, Thinking

# As `canonical_json` does, a line each.
_ENCODER = msgspec.json.Encoder(order="sorted")

# From a message to what a protocol makes of it: none, one, or several (a result each, for instance).
Render = Callable[[Message], Iterable[dict[str, Any]]]


class Rendered(NamedTuple):
    """Rendered messages, and the SHA-256 of their canonical JSON, each followed by a line feed."""

    messages: list[dict[str, Any]]
    digest: str

    def digest_with(self, body: dict[str, Any], field: str = "messages") -> str:
        """Return the digest of a request: of its body with this digest in the place of the messages."""
        return sha256(canonical_json({**body, field: self.digest}))


# What is to be rendered, and the place in the history where it begins. Messages of one role that follow each
# other are one by then.
_Spoken = tuple[int, Message]


class Rendering:
    """Keeps what it rendered of the last history. For one conversation at a time; others cost a fresh start.

    Consecutive messages of a role are merged, as protocols with strict turns want it; so are those around a
    message of which nothing can be sent, such as one of thoughts alone. The last message is always rendered
    anew, because the next one may join it.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        # One that remembers what it has rendered must not be asked out of turn.
        self._probe = copy(render)
        self._clear()

    def _clear(self) -> None:
        self._seen: tuple[Message, ...] = ()
        self._role = ""  # of the last of `_seen` of which something was sent
        self._done: list[dict[str, Any]] = []
        self._hash = hashlib.sha256()

    def of(self, messages: tuple[Message, ...]) -> Rendered:
        """Render a history. The list is the caller's; the values in it are shared and never changed."""
        try:
            return self._of(messages)
        except BaseException:
            self._clear()  # half of it is kept
            raise

    def _of(self, messages: tuple[Message, ...]) -> Rendered:
        spoken = self._new(messages)
        tail: list[dict[str, Any]] = []
        if spoken:
            start, last = spoken.pop()
            self._keep(spoken)
            self._seen = messages[:start]
            tail = list(self._render(last))
        digest = self._hash.copy()
        digest.update(_ENCODER.encode_lines(tail))
        return Rendered([*self._done, *tail], digest.hexdigest())

    def _new(self, messages: tuple[Message, ...]) -> list[_Spoken]:
        """Return what is to be rendered: what is new, or everything where nothing kept can be used."""
        seen = self._seen
        # Same objects are not looked into.
        if len(messages) > len(seen) and messages[: len(seen)] == seen:
            spoken = self._spoken(messages)
            if not spoken or spoken[0][1].role != self._role:
                return spoken
        self._clear()
        return self._spoken(messages)

    def _spoken(self, messages: tuple[Message, ...]) -> list[_Spoken]:
        spoken: list[_Spoken] = []
        begin, run = 0, list[Message]()
        for place in range(len(self._seen), len(messages)):
            message = messages[place]
            if not self._says_something(message):
                continue
            if run and run[0].role != message.role:
                spoken.append((begin, _merged(run)))
                run = []
            if not run:
                begin = place
            run.append(message)
        if run:
            spoken.append((begin, _merged(run)))
        return spoken

    def _says_something(self, message: Message) -> bool:
        for block in message.content:
            if isinstance(block, Text):
                if block.text and not block.text.isspace():
                    return True
            elif not isinstance(block, Thinking):
                return True
        return any(True for _ in self._probe(message))

    def _keep(self, spoken: list[_Spoken]) -> None:
        if spoken:
            rendered = [value for _, message in spoken for value in self._render(message)]
            self._done += rendered
            self._role = spoken[-1][1].role
            self._hash.update(_ENCODER.encode_lines(rendered))


def _merged(run: list[Message]) -> Message:
    if len(run) == 1:
        return run[0]
    return Message(run[0].role, tuple(block for message in run for block in message.content))
