"""What is derived from a session's log: `session.json` and `transcript.md`. Rebuilt at will."""

import os

import msgspec

from halo.files.atomic import replace_file
from halo.files.canonical import readable_json
from halo.files.log import read_log
from halo.records.events import Event, MessageAdded, ToolResultAdded, TurnEnded, TurnStarted
from halo.records.messages import Text, ToolCall
from halo.records.usage import Usage
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation, decode_events

FORMAT = 1
_TITLE = 60  # characters


class Header(msgspec.Struct, frozen=True):
    """session.json: what lists show of a session. `seq` is the last event that went into it."""

    format: int
    id: str
    agent: str
    origin: str
    title: str
    created_at: str
    updated_at: str
    seq: int
    turns: int
    model: str
    artifact: str
    usage: Usage


def header_of(session_id: str, conversation: Conversation) -> Header:
    """Derive the header from the folded log."""
    created = conversation.created
    first = next((m.text for m in conversation.messages if m.role == "user" and m.text), "")
    title = " ".join(first.split())
    return Header(
        format=FORMAT,
        id=session_id,
        agent=created.agent if created else "",
        origin=created.origin if created else "",
        title=title if len(title) <= _TITLE else title[: _TITLE - 1] + "…",
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        seq=conversation.seq,
        turns=conversation.turn,
        model=conversation.model,
        artifact=conversation.started.artifact if conversation.started else "",
        usage=conversation.usage,
    )


def read_header(folder: SessionFolder) -> Header | None:
    """Read session.json, or derive it from the log when it is missing or wrong. None without a log."""
    try:
        with open(os.path.join(folder.path, "session.json"), "rb") as file:
            header = msgspec.json.decode(file.read(), type=Header)
        if header.format == FORMAT and header.id == folder.id:
            return header
    except (OSError, msgspec.MsgspecError):
        pass  # derived: the log decides
    return header_of(folder.id, folder.read()) if folder.exists() else None


def write_derived(folder: SessionFolder, conversation: Conversation) -> None:
    """Bring session.json and transcript.md up to date; only what is new is rendered when both fit."""
    transcript = os.path.join(folder.path, "transcript.md")
    known = read_header(folder)
    fits = (
        known is not None
        and known.seq < conversation.seq
        and os.path.exists(os.path.join(folder.path, "session.json"))
        and os.path.exists(transcript)
    )
    after = known.seq if fits and known is not None else 0
    text = "".join(render_event(e) for e in decode_events(read_log(folder.events), []) if e.seq > after)
    if after:
        with open(transcript, "a", encoding="utf-8") as file:
            file.write(text)
    else:
        replace_file(transcript, f"# Session {folder.id}\n{text}".encode())
    replace_file(os.path.join(folder.path, "session.json"), readable_json(header_of(folder.id, conversation)))


def render_event(event: Event) -> str:
    """Write one event as Markdown; empty for what a reader of the transcript does not need."""
    try:
        match event.type:
            case "turn.started":
                started = msgspec.json.decode(event.data, type=TurnStarted)
                return f"\n## Turn {event.turn} · {event.ts}\n\nartifact `{started.artifact[:12]}`\n"
            case "message":
                return _message(msgspec.json.decode(event.data, type=MessageAdded))
            case "tool.result":
                result = msgspec.json.decode(event.data, type=ToolResultAdded)
                mark = " (error)" if result.result.is_error else ""
                return f"\n**{result.tool}**{mark}\n\n{_fenced(result.result.text)}"
            case "turn.ended":
                ended = msgspec.json.decode(event.data, type=TurnEnded)
                return "" if ended.reason == "done" else f"\n*{ended.reason}* {ended.error}\n"
    except msgspec.MsgspecError:
        return f"\n*event {event.seq} cannot be read*\n"
    return ""


def _message(added: MessageAdded) -> str:
    parts = [f"\n### {'User' if added.message.role == 'user' else 'Assistant'}\n"]
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
