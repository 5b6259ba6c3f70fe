"""Imports sessions: what `halo session export` wrote as JSON, or an array of messages of a provider.

What comes is a stranger's: nothing of it is run, fetched or believed. The new session has an id, a seal and a
target of this machine; what was said is taken, what was paid, started or set going elsewhere is not.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from halo.errors import ExchangeError
from halo.records.events import FORMAT as EVENT_FORMAT
from halo.records.events import TYPES, Event
from halo.records.exchange import FORMAT, KIND, ExportedSession
from halo.records.session_events import SessionChanged
from halo.records.targets import AgentTarget
from halo.sessions.exchange.anthropic_messages import read_anthropic
from halo.sessions.exchange.laying import Beginning, lay_down
from halo.sessions.exchange.openai_messages import read_openai
from halo.sessions.exchange.taking import Taken, brief
from halo.sessions.exchange.turning import Turned, turns_of
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.ids import is_session_id, timestamp
from halo.sessions.reading import payload_of
from halo.sessions.routing.carrying import copies_setting

Form = Literal["json", "openai", "anthropic"]

ORIGIN = REASON = "import"
LARGEST = 256 << 20  # bytes of a file
_REFERENCE = b'{"attachment":'
_MOST_TURNS = 1_000_000_000
_READERS: dict[Form, Callable[[list[Any]], Taken]] = {"openai": read_openai, "anthropic": read_anthropic}


class Imported(NamedTuple):
    """A session that was made: its folder, its turns, and what was not taken over."""

    folder: SessionFolder
    form: Form
    turns: int
    remarks: tuple[str, ...]


class _Head(msgspec.Struct):
    format: int
    kind: str
    version: str = ""


class Read(NamedTuple):
    """A file that was read: the agent that it names, if any, and what is in it."""

    form: Form
    agent: str
    previous: str
    turned: Turned


def read_import(data: bytes, form: Form | None, now_ns: int) -> Read:
    """Read a file of `form`; None: of the one that it shows itself to be. Raises `ExchangeError`."""
    value = _json(data)
    found = form or form_of(value)
    if found == "json":
        return _read_session(data, value)
    items, remarks = _array(value)
    taken = _READERS[found](items)
    turned = turns_of(taken, timestamp(now_ns))
    if not turned.events:
        raise ExchangeError("there is no message in it that can be taken over")
    return Read(found, "", "", turned._replace(remarks=(*remarks, *turned.remarks)))


def lay_down_import(
    sessions: str, home: str, now_ns: Callable[[], int], target: AgentTarget, read: Read
) -> Imported:
    """Make a session of what was read, whole or not at all. Raises OSError and `LogError`."""
    beginning = Beginning(target, ORIGIN, read.previous, REASON, read.turned.turns)
    folder = lay_down(sessions, home, now_ns, beginning, read.turned.events)
    return Imported(folder, read.form, read.turned.turns, read.turned.remarks)


def form_of(value: Any) -> Form:
    """Tell what a file is by what is in it. Raises `ExchangeError` for what is nothing known, or both arrays.

    Plain texts are the same in both arrays.
    """
    if isinstance(value, dict) and "kind" in value:
        return "json"
    items, _ = _array(value)
    openai, anthropic = any(map(_is_openai, items)), any(map(_is_anthropic, items))
    if openai and anthropic:
        raise ExchangeError(
            "some of its messages are OpenAI's and some Anthropic's", hint="say which: --format"
        )
    return "anthropic" if anthropic else "openai"


def _is_openai(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    if item.get("role") in ("developer", "tool", "function") or item.keys() & {"tool_calls", "function_call"}:
        return True
    return bool(_types(item) & {"image_url", "input_audio", "file", "refusal"})


def _is_anthropic(item: Any) -> bool:
    kinds = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
    return isinstance(item, dict) and bool(_types(item) & kinds)


def _types(item: dict[str, Any]) -> set[str]:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return {p["type"] for p in parts if isinstance(p, dict) and isinstance(p.get("type"), str)}


def _json(data: bytes) -> Any:
    if not data.strip():
        raise ExchangeError("it is empty")
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        people = "Markdown and HTML are for people: export the session as json"
        hint = None if data.lstrip()[:1] in b"[{" else people
        raise ExchangeError(f"it is no JSON: {error}", hint=hint) from error
    except RecursionError as error:
        raise ExchangeError("it is nested too deeply") from error


def _array(value: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the messages: of an array, or of the body of a request."""
    if isinstance(value, list):
        return value, ()
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        others = ", ".join(brief(name) for name in value if name != "messages")
        return value["messages"], (f"only messages is taken over, not {others}",) if others else ()
    raise ExchangeError(
        "it is neither a session nor an array of messages",
        hint="an array of objects with role and content, or what halo session export --format json wrote",
    )


def _read_session(data: bytes, value: Any) -> Read:
    try:
        head = msgspec.convert(value, _Head)
    except msgspec.ValidationError as error:
        raise ExchangeError(f"it is no exported session: {error}") from error
    if head.kind != KIND:
        raise ExchangeError(f"it is no exported session: kind is {brief(head.kind)}")
    if head.format > FORMAT:
        raise _newer(head, f"format {head.format}")
    try:
        exported = msgspec.json.decode(data, type=ExportedSession)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ExchangeError(f"it is no exported session: {error}") from error
    conversation = Conversation()
    for number, event in enumerate(exported.events, 1):
        _check(event, number, head)
        conversation.add(msgspec.structs.replace(event, seq=number))
    if not exported.events:
        raise ExchangeError("there is no event in it")
    if conversation.newer:
        raise _newer(head, conversation.newer[0])
    remarks = [f"it was lost before: {problem}" for problem in exported.lost]
    remarks += conversation.damaged
    left = sorted(
        {name for name in map(_setting, exported.events) if name and not copies_setting(name, REASON)}
    )
    remarks += [f"the setting {name} is not taken over" for name in left]
    turned = Turned(exported.events, conversation.turn, tuple(remarks))
    previous = exported.header.id if is_session_id(exported.header.id) else ""
    return Read("json", exported.header.agent, previous, turned)


def _newer(head: _Head, what: str) -> ExchangeError:
    return ExchangeError(
        f"it was written by a newer version of Halo ({brief(head.version)}): {what}",
        hint="use that version, or a newer one",
    )


def _check(event: Event, number: int, head: _Head) -> None:
    """Raise `ExchangeError` for an event that no log would have."""
    if event.format > EVENT_FORMAT:
        raise _newer(head, f"event {number} has format {event.format}")
    if not 0 <= event.turn <= _MOST_TURNS:
        raise ExchangeError(f"event {number}: {event.turn} is no number of a turn")
    try:
        dt.datetime.fromisoformat(event.ts)
    except ValueError:
        raise ExchangeError(f"event {number}: {brief(event.ts)} is no time") from None
    if event.type in TYPES and bytes(event.data).startswith(_REFERENCE):
        raise ExchangeError(f"event {number}: its data are elsewhere, and not in the file")


def _setting(event: Event) -> str:
    data = payload_of(event).data
    return data.name if isinstance(data, SessionChanged) and data.value else ""
