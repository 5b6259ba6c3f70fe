"""What is derived from a session's log: `session.json` and `transcript.md`. Rebuilt at will."""

import os

import msgspec

from halo.files.atomic import replace_file
from halo.files.canonical import readable_json
from halo.records.events import (
    ContextShortened,
    Event,
    MessageAdded,
    Repaired,
    SessionTarget,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
)
from halo.records.messages import Text, ToolCall
from halo.records.origins import Origin
from halo.records.usage import Usage
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.reading import Unread, payload_of

FORMAT = 1
_TITLE = 60  # characters
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Header(msgspec.Struct, frozen=True):
    """session.json: what lists show of a session. `seq` is the last event that went into it.

    `target` is whom the session is with, `agent` its name once more, for people; null and empty where the
    first event is damaged. `log_bytes` and `transcript_bytes` are the sizes of the files when it was made:
    another size means that the header, or the transcript, is not of this log as it is now. `seal` is that of
    `session.created`. `settings` is what was set for it. `ended` is the reason for which its last turn is
    over, empty while one is open. `interacted_at` is when a person wrote last. `context_tokens` is what the
    last call and its reply took in the window, 0 where that is unknown. `report` is the status that its
    parent was told last, `successor` the session that its key leads to now.
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
    calls: int = 0
    cost: float = 0.0
    currency: str = ""
    context_tokens: int = 0


def header_of(
    session_id: str, conversation: Conversation, *, log_bytes: int, transcript_bytes: int = 0
) -> Header:
    """Derive the header from the folded log."""
    created, standing = conversation.created, conversation.standing
    title = " ".join((standing.settings.get("title") or conversation.opening).split())
    last = conversation.last_call.reported.usage if conversation.last_call is not None else None
    return Header(
        format=FORMAT,
        id=session_id,
        agent=created.target.agent if created else "",
        target=created.target if created else None,
        origin=created.origin if created else "",
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        seq=conversation.seq,
        turns=conversation.turn,
        model=conversation.model,
        artifact=conversation.started.artifact if conversation.started else "",
        usage=conversation.usage,
        log_bytes=log_bytes,
        transcript_bytes=transcript_bytes,
        seal=created.seal if created else "",
        key=created.key if created else "",
        parent=created.parent if created else "",
        root=(created.root or session_id) if created else session_id,
        depth=created.depth if created else 0,
        previous=created.previous if created else "",
        successor=standing.successor.to if standing.successor else "",
        source=standing.origin,
        settings=standing.settings,
        interacted_at=standing.interacted_at,
        ended=conversation.ended.reason if conversation.ended and not conversation.open_turn else "",
        report=standing.report.status if standing.report else "",
        calls=conversation.calls,
        cost=conversation.cost,
        currency=conversation.currency,
        context_tokens=last.prompt + last.output if last is not None else 0,
    )


def read_header(folder: SessionFolder) -> Header | None:
    """Read session.json, or derive it from the log when it is missing, wrong or older. None without a log.

    It is older when the log has another size than it had: a log only grows. That happens while a turn runs,
    and when one ended without writing it (a kill, a full disk). Raises `LogError` when it has to be derived
    and the log cannot be read.
    """
    size = _size(folder.events)  # before it is read: what grows meanwhile must not be taken for known
    if size is None:
        return None
    stored = _stored(folder)
    if stored is not None and stored.log_bytes == size:
        return stored
    return header_of(folder.id, folder.read(), log_bytes=size)


def _stored(folder: SessionFolder) -> Header | None:
    """Read session.json as it is; None when it is missing or wrong."""
    try:
        with open(os.path.join(folder.path, "session.json"), "rb") as file:
            header = msgspec.json.decode(file.read(), type=Header)
    except (OSError, msgspec.MsgspecError):
        return None  # derived: the log decides
    return header if header.format == FORMAT and header.id == folder.id else None


def _size(path: str) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def write_derived(folder: SessionFolder, conversation: Conversation) -> None:
    """Bring session.json and transcript.md up to date with a session that this process holds.

    Only what is new is rendered when the transcript is the one that session.json tells of. Raises OSError
    (a full disk, something in the way), which the next call makes good, and `LogError`.
    """
    transcript = os.path.join(folder.path, "transcript.md")
    known, size = _stored(folder), _size(transcript)
    grows = known is not None and known.seq <= conversation.seq and size == known.transcript_bytes > 0
    after = known.seq if grows and known is not None else 0
    text = "".join(render(found) for found in folder.read_events(after=after))
    if grows and size is not None:
        data = text.encode()
        _append(transcript, data)
        size += len(data)
    else:
        data = f"# Session {folder.id}\n{text}".encode()
        replace_file(transcript, data)
        size = len(data)
    header = header_of(folder.id, conversation, log_bytes=_size(folder.events) or 0, transcript_bytes=size)
    replace_file(os.path.join(folder.path, "session.json"), readable_json(header))


def _append(path: str, data: bytes) -> None:
    with open(os.open(path, _APPEND), "ab") as file:
        file.write(data)


def render(found: Event | Unread) -> str:
    """Write one event as Markdown; empty for what a reader of the transcript does not need."""
    if isinstance(found, Unread):
        # A line without an envelope has no place among the turns.
        return f"\n*{found.problem}*\n" if found.event is not None else ""
    data, newer = payload_of(found)
    match data:
        case TurnStarted():
            return f"\n## Turn {found.turn} · {found.ts}\n\nartifact `{data.artifact[:12]}`\n"
        case MessageAdded():
            return _message(data)
        case ToolResultAdded():
            mark = " (error)" if data.result.is_error else ""
            return f"\n**{data.tool}**{mark}\n\n{_fenced(data.result.text)}"
        case ContextShortened():
            tokens = f"about {data.tokens_before:,} tokens to {data.tokens_after:,}"
            return f"\n*the model's history was shortened here ({data.strategy}): {tokens}*\n"
        case Repaired():
            which = f" `{data.tool}`" if data.tool else ""
            note = f": {data.note}" if data.note else ""
            return f"\n*repaired ({data.kind}){which}{note}*\n"
        case TurnEnded():
            return "" if data.reason == "done" else f"\n*{data.reason}* {data.error}\n"
    return f"\n*{newer}*\n" if newer else ""


def _message(added: MessageAdded) -> str:
    parts = [f"\n### {'User' if added.message.role == 'user' else 'Assistant'}\n"]
    if added.typed:
        parts.append(f"\n{added.typed}\n\n*What the model was given:*\n\n{_fenced(added.message.text)}")
        return "".join(parts)
    for block in added.message.content:
        if isinstance(block, Text):
            parts.append(f"\n{block.text}\n")
        elif isinstance(block, ToolCall):
            parts.append(f"\n**{block.name}** `{block.arguments}`\n")
    if added.partial:
        parts.append("\n*broken off*\n")
    return "".join(parts)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}\n"
