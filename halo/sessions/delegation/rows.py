"""What `session_list` and `session_history` say of sessions."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from halo.errors import SessionKeyError
from halo.records.events import MessageAdded, ToolResultAdded
from halo.records.headers import Header
from halo.records.messages import Text, ToolCall
from halo.records.usage import Usage
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread, payload_of
from halo.sessions.routing.grammar import RESERVED, parse_key

_LONGEST = 2_000  # characters of a message in a list


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One session, as a model is told of it. Paths are relative to the workspace, times ISO 8601."""

    session_id: str
    agent: str
    kind: str
    status: str
    channel: str
    updated_at: str
    key: str = ""
    title: str = ""
    parent: str = ""
    model: str = ""
    turns: int = 0
    context_tokens: int = 0
    total_tokens: int = 0
    cost: float = 0.0
    currency: str = ""
    thinking: str = ""
    verbose: str = ""
    send_policy: str = ""
    aborted_last_run: bool = False
    archived: bool = False
    last_channel: str = ""
    last_to: str = ""
    delivery: dict[str, str] = {}
    transcript_path: str = ""
    messages: list[dict[str, Any]] = []


def row_of(header: Header, *, running: bool, archived: bool, path: str) -> Row:
    """Make the row of a session; `path` is that of its folder, relative to the workspace."""
    source, settings = header.source, header.settings
    channel = (source.provider if source is not None else "") or _channel_of(header)
    delivery = {}
    if source is not None:
        fields = {"channel": source.provider, "to": source.to, "account": source.account}
        delivery = {name: value for name, value in fields.items() if value}
    return Row(
        session_id=header.id,
        agent=header.agent,
        kind=kind_of(header),
        status=_status(header, running=running),
        channel=channel or "unknown",
        updated_at=header.updated_at,
        key="" if header.key in RESERVED else header.key,
        title=header.title,
        parent=header.parent,
        model=header.model,
        turns=header.turns,
        context_tokens=header.context_tokens,
        total_tokens=_total(header.usage),
        cost=header.cost,
        currency=header.currency,
        thinking=settings.get("thinking", ""),
        verbose=settings.get("verbose", ""),
        send_policy=settings.get("send", ""),
        aborted_last_run=header.ended in ("interrupted", "error", "stopped"),
        archived=archived,
        last_channel=source.provider if source is not None else "",
        last_to=source.to if source is not None else "",
        delivery=delivery,
        transcript_path=f"{path}/transcript.md",
    )


def kind_of(header: Header) -> str:
    """Return main, group, cron, hook, node or other."""
    if not header.key:
        return "other" if header.parent else "main"
    try:
        return parse_key(header.key).listed
    except SessionKeyError:
        return "other"


def _channel_of(header: Header) -> str:
    try:
        key = parse_key(header.key) if header.key else None
    except SessionKeyError:
        key = None
    if key is not None and key.channel:
        return key.channel
    return "internal" if header.parent or kind_of(header) in ("cron", "hook", "node") else ""


def _status(header: Header, *, running: bool) -> str:
    if running:
        return "running"
    if header.settings.get("stopped"):
        return "stopped"
    return "idle"


def _total(usage: Usage) -> int:
    return usage.prompt + usage.output


def active(headers: Iterable[Header], since: datetime) -> Iterator[Header]:
    """Leave out sessions that have not changed since; those without a time stay."""
    for header in headers:
        try:
            if datetime.fromisoformat(header.updated_at) < since:
                continue
        except ValueError:
            pass
        yield header


def last_messages(folder: SessionFolder, limit: int, *, tools: bool, whole: bool) -> list[dict[str, Any]]:
    """Return the last messages of a session, oldest first. Raises `LogError`.

    With `tools` calls and results are among them. Unless `whole`, long texts are cut, and say so. What Halo
    itself asked or wrote is left out.
    """
    found: list[dict[str, Any]] = []
    for event in folder.read_events():
        data = None if isinstance(event, Unread) else payload_of(event).data
        if isinstance(event, Unread) or data is None:
            continue
        if isinstance(data, MessageAdded) and not data.internal:
            text = "".join(b.text for b in data.message.content if isinstance(b, Text))
            if text:
                role = data.message.role
                found.append(
                    {"role": role, "turn": event.turn, "at": event.ts, "text": _cut(text, whole=whole)}
                )
            if tools:
                found.extend(
                    {"role": "tool_call", "turn": event.turn, "tool": b.name, "arguments": b.arguments}
                    for b in data.message.content
                    if isinstance(b, ToolCall)
                )
        elif tools and isinstance(data, ToolResultAdded):
            result = {"role": "tool_result", "turn": event.turn, "tool": data.tool}
            found.append(
                {**result, "text": _cut(data.result.text, whole=whole), "is_error": data.result.is_error}
            )
        del found[:-limit]
    return found


def _cut(text: str, *, whole: bool) -> str:
    if whole or len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} [… {len(text) - _LONGEST:,} more characters: session_history shows them]"
