"""Renders histories that grow: what was rendered for an earlier request is not rendered again.

A conversation of ten thousand messages costs a call no more than one of ten. The rendered values of earlier
messages are the very same objects in each request, so that two requests are compared by identity first.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.records.messages import Message

# From a message to what a protocol makes of it: none, one, or several (a result each, for instance).
Render = Callable[[Message], Iterable[dict[str, Any]]]


class Rendered(NamedTuple):
    """Rendered messages, and the SHA-256 of their canonical JSON, each followed by a line feed."""

    messages: list[dict[str, Any]]
    digest: str

    def digest_with(self, body: dict[str, Any], field: str = "messages") -> str:
        """Return the digest of a request: of its body with this digest in the place of the messages."""
        return sha256(canonical_json({**body, field: self.digest}))


class Rendering:
    """Keeps what it rendered of the last history. For one conversation at a time; others cost a fresh start.

    Consecutive messages of a role are merged, as protocols with strict turns want it. The last message is
    always rendered anew, because the next one may join it.
    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._clear()

    def _clear(self) -> None:
        self._seen: tuple[Message, ...] = ()
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
        if not self._goes_on(messages):
            self._clear()
        groups = list(_groups(messages[len(self._seen) :]))
        for group in groups[:-1]:
            self._keep(self._rendered(group))
        tail = self._rendered(groups[-1]) if groups else []
        if groups:
            self._seen = messages[: len(messages) - len(groups[-1])]
        digest = self._hash.copy()
        _add(digest, tail)
        return Rendered([*self._done, *tail], digest.hexdigest())

    def _goes_on(self, messages: tuple[Message, ...]) -> bool:
        """Tell whether what was rendered is the beginning of `messages`; same objects are not looked into."""
        seen = self._seen
        if not seen:
            return True
        if len(messages) <= len(seen) or messages[len(seen)].role == seen[-1].role:
            return False
        return messages[: len(seen)] == seen

    def _rendered(self, group: Sequence[Message]) -> list[dict[str, Any]]:
        if len(group) == 1:
            return list(self._render(group[0]))
        content = tuple(block for message in group for block in message.content)
        return list(self._render(Message(group[0].role, content)))

    def _keep(self, rendered: list[dict[str, Any]]) -> None:
        self._done.extend(rendered)
        _add(self._hash, rendered)


def _groups(messages: Sequence[Message]) -> Iterable[list[Message]]:
    group: list[Message] = []
    for message in messages:
        if group and group[-1].role != message.role:
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def _add(digest: "hashlib._Hash", rendered: list[dict[str, Any]]) -> None:
    for value in rendered:
        digest.update(canonical_json(value) + b"\n")
