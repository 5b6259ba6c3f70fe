"""What an event says of other sessions, and whether it can be meant: their ids become paths.

A log may have come with a clone, and then anybody wrote it.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from halo.records.events import EventData, MessageAdded, TurnStarted
from halo.records.session_events import (
    AnswerTaken,
    ChildRemoved,
    ChildStarted,
    SessionCreated,
    SessionRolledOver,
)
from halo.sessions.ids import is_session_id


def misnamed(data: EventData) -> bool:
    """Tell whether an event names a session in a way that no session is named."""
    named = _NAMED.get(type(data))  # one look: a log has a hundred thousand events, and most name nobody
    return named is not None and any(name and not is_session_id(name) for name in named(data))


def unrelated(data: EventData) -> EventData | None:
    """Return what is left of an event that is misnamed: what was said, and with whom; None for nothing."""
    match data:
        case MessageAdded():
            return msgspec.structs.replace(data, sources=())
        case SessionCreated():
            return _alone(data)
        case TurnStarted() if data.session is not None:
            return msgspec.structs.replace(data, session=_alone(data.session))
    return None


def _alone(created: SessionCreated) -> SessionCreated:
    return msgspec.structs.replace(created, parent="", root="", depth=0, previous="")


def _begun(created: SessionCreated | None) -> tuple[str, ...]:
    return (created.parent, created.root, created.previous) if created is not None else ()


_NAMED: dict[type, Callable[[Any], tuple[str, ...]]] = {
    MessageAdded: lambda data: tuple([source.sender.session for source in data.sources]),
    TurnStarted: lambda data: _begun(data.session),
    SessionCreated: _begun,
    ChildStarted: lambda data: (data.session,),
    ChildRemoved: lambda data: (data.session,),
    AnswerTaken: lambda data: (data.session,),
    SessionRolledOver: lambda data: (data.to,),
}
