"""What lists show of a session, derived from its log: `session.json`, and a row of the index."""

import msgspec

from halo.records.origins import Origin
from halo.records.session_events import SessionTarget
from halo.records.usage import Usage

FORMAT = 1


# `gc=False`, as for all that it holds: a list has a hundred thousand headers, and none is part of a cycle.
class Header(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`session.json`, and a row of the index: what lists show of a session.

    `seq` is the last event that went into it. `target` is whom the session is with, `agent` its name once
    more, for people; null and empty where the first event is damaged. `log_bytes` and `transcript_bytes` are
    the sizes of the files when it was made: another size means that the header, or the transcript, is not of
    this log as it is now. `seal` is that of `session.created`. `settings` is what was set for it. `ended` is
    the reason for which its last turn is over, empty while one is open. `interacted_at` is when a person
    wrote last. `context_tokens` is what the last call and its reply took in the window, 0 where that is
    unknown. `removed_calls` and the like are what sessions used that were started from here and are gone.
    `report` is the status that its parent was told last, after the turn `reported`; `successor` the
    session that its key leads to now. `due` and `undelivered` count parts of replies: those of which nobody
    knows whether they arrived at a channel, and those that did not.
    """

    format: int
    id: str
    agent: str
    target: SessionTarget | None
    origin: str
    title: str
    created_at: str
    updated_at: str
    seq: int
    turns: int
    model: str
    artifact: str
    usage: Usage
    log_bytes: int
    transcript_bytes: int = 0
    seal: str = ""
    key: str = ""
    parent: str = ""
    root: str = ""
    depth: int = 0
    previous: str = ""
    successor: str = ""
    source: Origin | None = None
    settings: dict[str, str] = {}
    interacted_at: str = ""
    ended: str = ""
    report: str = ""
    reported: int = 0
    removed_calls: int = 0
    removed_tokens: int = 0
    removed_cost: float = 0.0
    calls: int = 0
    cost: float = 0.0
    currency: str = ""
    context_tokens: int = 0
    due: int = 0
    undelivered: int = 0
