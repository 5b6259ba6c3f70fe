"""Requests of a conversation that grows, as they are recorded: what is old of it is not looked at again.

The name of a request is the SHA-256 of its canonical JSON, in which few-shots and messages come first. So
the digest goes on from message to message, and the names of all that a request goes on from are at hand.
"""

import hashlib
from typing import TYPE_CHECKING

import msgspec

from halo.files.canonical import canonical_json
from halo.models.adapter import Request
from halo.models.disguise import Disguise
from halo.models.recordings import Asked, key_of, without_history

if TYPE_CHECKING:
    from halo.records.messages import Message


class Named:
    """A request as it is recorded, with its name and those of its beginnings."""

    def __init__(self, asked: Asked, states: "list[hashlib._Hash]") -> None:
        """`states`: digests of all that stands before the end of so many messages."""
        self.asked = asked
        self._states = states
        rest = msgspec.structs.replace(asked, few_shots=[], messages=[])
        self._rest = b"]," + canonical_json(rest)[1:]

    @property
    def key(self) -> str:
        """The name of the request."""
        return self.key_before(0)

    def key_before(self, messages: int) -> str:
        """Return the name of the request without its last `messages`."""
        count = len(self.asked.messages) - messages
        if not count:  # an empty list is left out
            return key_of(msgspec.structs.replace(self.asked, messages=[]))
        digest = self._states[count].copy()
        digest.update(self._rest)
        return digest.hexdigest()


class RequestChain:
    """Keeps what it made of the last history. For one conversation at a time; others cost a fresh start."""

    def __init__(self, disguise: Disguise) -> None:
        self._disguise = disguise
        self._begin(b"")

    def _begin(self, head: bytes) -> None:
        self._head = head
        self._seen: tuple[Message, ...] = ()
        self._covered: list[dict[str, object]] = []
        self._states = [hashlib.sha256(head)]

    def of(self, request: Request) -> Named:
        """Return a request as it is recorded."""
        bare = without_history(request, self._disguise)
        shots = b'"few_shots":' + canonical_json(bare.few_shots) + b"," if bare.few_shots else b""
        head = b"{" + shots + b'"messages":['
        history = request.history
        # Same objects are not looked into.
        if head != self._head or history[: len(self._seen)] != self._seen:
            self._begin(head)
        for message in history[len(self._seen) :]:
            covered = self._disguise.cover(msgspec.to_builtins(message))
            state = self._states[-1].copy()
            state.update((b"," if self._covered else b"") + canonical_json(covered))
            self._covered.append(covered)
            self._states.append(state)
        self._seen = history
        return Named(msgspec.structs.replace(bare, messages=[*self._covered]), [*self._states])
