"""What is derived from a session's log: `session.json` and `transcript.md`. Rebuilt at will."""

import os

import msgspec

from halo.files.atomic import replace_file
from halo.files.canonical import readable_json
from halo.files.regular import read_regular
from halo.records.events import (
    ContextShortened,
    Event,
    MessageAdded,
    Repaired,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
)
from halo.records.headers import FORMAT, Header
from halo.records.messages import Text, ToolCall
from halo.records.session_events import ArtifactChanged, CompactionFailed, MemoryFlushed
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.index.rows import note
from halo.sessions.reading import Unread, payload_of

HEADER = "session.json"
TRANSCRIPT = "transcript.md"
_LARGEST = 1 << 20  # bytes of a header
_TITLE = 60  # characters
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


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
        reported=standing.report_turn,
        removed_calls=sum(child.calls for child in standing.removed.values()),
        removed_tokens=sum(child.tokens for child in standing.removed.values()),
        removed_cost=sum(child.cost for child in standing.removed.values()),
        calls=conversation.calls,
        cost=conversation.cost,
        currency=conversation.currency,
        due=len(standing.due),
        undelivered=len(standing.undelivered),
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
    stored = stored_header(folder)
    if stored is not None and stored.log_bytes == size:
        return stored
    return header_of(folder.id, folder.read(), log_bytes=size)


def stored_header(folder: SessionFolder) -> Header | None:
    """Read session.json as it is; None when it is missing or wrong."""
    try:
        header = msgspec.json.decode(read_regular(os.path.join(folder.path, HEADER), _LARGEST), type=Header)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None  # derived: the log decides
    return header if header.format == FORMAT and header.id == folder.id else None


def _size(path: str) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def write_derived(session: OpenSession) -> None:
    """Bring session.json, transcript.md and the row of the index up to date.

    Only what this process appended is rendered where both files tell of all that was there before; the log
    is not read again. Raises OSError (a full disk, something in the way), which the next call makes good,
    and `LogError`.
    """
    folder, conversation = session.folder, session.conversation
    transcript = os.path.join(folder.path, TRANSCRIPT)
    known, size = stored_header(folder), _size(transcript)
    if (
        known is not None
        and (known.seq, known.log_bytes) == session.settled
        and size == known.transcript_bytes
    ):
        data = "".join(map(render, session.fresh)).encode()
        _append(transcript, data)
        size += len(data)
    else:
        data = transcript_start(folder.id) + "".join(map(render, folder.read_events())).encode()
        replace_file(transcript, data)
        size = len(data)
    log_bytes = _size(folder.events) or 0
    header = header_of(folder.id, conversation, log_bytes=log_bytes, transcript_bytes=size)
    replace_file(os.path.join(folder.path, HEADER), readable_json(header))
    session.settle(log_bytes)
    note(os.path.dirname(os.path.dirname(folder.path)), header)


def transcript_start(session_id: str) -> bytes:
    """Return what every transcript begins with."""
    return f"# Session {session_id}\n".encode()


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
            return f"\n**{data.tool}**{mark}\n\n{fenced(data.result.text)}"
        case ContextShortened():
            tokens = f"about {data.tokens_before:,} tokens to {data.tokens_after:,}"
            return f"\n*the model's history was shortened here ({data.strategy}): {tokens}*\n"
        case ArtifactChanged():
            lost = f"about {data.tokens_lost:,} cached tokens lost"
            return f"\n*the prompt is another one from here on: {data.first}; {lost}*\n"
        case MemoryFlushed() if data.lines:
            return f"\n*notes were added to {data.file}: {data.lines}*\n"
        case CompactionFailed():
            return f"\n*the model's history was not summarised: {data.problem}*\n"
        case Repaired():
            which = f" `{data.tool}`" if data.tool else ""
            note = f": {data.note}" if data.note else ""
            return f"\n*repaired ({data.kind}){which}{note}*\n"
        case TurnEnded():
            return "" if data.reason == "done" else f"\n*{data.reason}* {data.error}\n"
    return f"\n*{newer}*\n" if newer else ""


def _message(added: MessageAdded) -> str:
    who = "Assistant" if added.message.role == "assistant" else "Halo" if added.internal else "User"
    parts = [f"\n### {who}{' (internal)' if added.internal else ''}\n"]
    if added.typed:
        parts.append(f"\n{added.typed}\n\n*What the model was given:*\n\n{fenced(added.message.text)}")
        return "".join(parts)
    for block in added.message.content:
        if isinstance(block, Text):
            parts.append(f"\n{block.text}\n")
        elif isinstance(block, ToolCall):
            parts.append(f"\n**{block.name}** `{block.arguments}`\n")
    if added.partial:
        parts.append("\n*broken off*\n")
    return "".join(parts)


def fenced(text: str) -> str:
    """Write a text as a block of code that nothing in it can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}\n"
