"""Finds in a session's log what became of a message that was sent to it."""

import os
from typing import NamedTuple

from halo.records.events import MessageAdded, TurnEnded
from halo.records.session_events import SessionChanged
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread, payload_of


class Outcome(NamedTuple):
    """What a message came to. `taken`: it is in the log; `ended` is the reason of its turn, empty before.

    `text` is that of the model's last message of the turn; `turn` is 0 where the session was stopped instead.
    """

    taken: bool = False
    ended: str = ""
    error: str = ""
    text: str = ""
    turn: int = 0


class Awaited:
    """A message that somebody waits for the answer to: the log is read again when it has grown."""

    def __init__(self, folder: SessionFolder, message_id: str) -> None:
        self._folder, self._id = folder, message_id
        self._bytes = -1
        self._outcome = Outcome()

    def look(self) -> Outcome:
        """Say what has become of the message by now. Raises `LogError`."""
        size = os.path.getsize(self._folder.events) if self._folder.exists() else 0
        if size != self._bytes:
            self._bytes, self._outcome = size, outcome_of(self._folder, self._id)
        return self._outcome


def outcome_of(folder: SessionFolder, message_id: str) -> Outcome:
    """Look for the message with this id, and for the end of its turn. Raises `LogError`.

    A turn that gave way to another message is answered with the one behind it.
    """
    found = Outcome()
    for event in folder.read_events():
        if isinstance(event, Unread):
            continue
        data = payload_of(event).data
        if isinstance(data, MessageAdded):
            if any(source.id == message_id for source in data.sources):
                found = Outcome(taken=True, turn=event.turn)
            elif found.taken and event.turn == found.turn and data.message.role == "assistant":
                found = found._replace(text=data.message.text or found.text)
        elif isinstance(data, TurnEnded) and found.taken and event.turn == found.turn:
            if data.reason != "gave_way":
                return found._replace(ended=data.reason, error=data.error)
            found = found._replace(turn=found.turn + 1, text="")
        elif isinstance(data, SessionChanged) and data.name == "stopped" and data.value and found.taken:
            return found._replace(ended="stopped", turn=0)
    return found


class Exchange(NamedTuple):
    """What two sessions said to each other, as the one that was asked has it."""

    request: str = ""
    first: str = ""
    latest: str = ""


def exchange_with(folder: SessionFolder, other: str) -> Exchange:
    """Return the last exchange that `other` began here. Raises `LogError`.

    Request and answers are the texts of the messages, the first answer that of the request's own turn.
    """
    found, begun_in, answering, gave_way = Exchange(), 0, False, False
    for event in folder.read_events():
        data = None if isinstance(event, Unread) else payload_of(event).data
        if isinstance(event, Unread):
            continue
        if isinstance(data, TurnEnded):
            gave_way = data.reason == "gave_way" and answering
            begun_in += gave_way and begun_in == event.turn
        if not isinstance(data, MessageAdded):
            continue
        if data.message.role == "user" and data.sources:
            theirs = [s for s in data.sources if s.sender.kind == "agent" and s.sender.session == other]
            answering = bool(theirs) or gave_way
            if any(source.rounds == 0 for source in theirs):
                found, begun_in = Exchange(data.typed or data.message.text), event.turn
        elif data.message.role == "assistant" and answering and data.message.text:
            first = data.message.text if event.turn == begun_in else found.first
            found = Exchange(found.request, first, data.message.text)
    return found
