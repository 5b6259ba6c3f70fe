"""What an event says of other sessions, and whether it can be meant: their ids become paths.

A log may have come with a clone, and then anybody wrote it.
"""

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
    return not all(is_session_id(name) for name in _named(data) if name)


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


def _named(data: EventData) -> tuple[str, ...]:
    match data:
        case MessageAdded():
            return tuple(source.sender.session for source in data.sources)
        case ChildStarted() | ChildRemoved() | AnswerTaken():
            return (data.session,)
        case SessionCreated():
            return (data.parent, data.root, data.previous)
        case TurnStarted() if data.session is not None:
            return _named(data.session)
        case SessionRolledOver():
            return (data.to,)
    return ()
