"""Exports sessions: the bytes of a document, an array of messages, or a file that loses nothing."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from halo.errors import UsageError
from halo.files.atomic import create_file, replace_file
from halo.records.events import NAMES, Event, TurnStarted
from halo.records.exchange import FORMAT, KIND, ExportedSession
from halo.records.session_events import SessionCreated
from halo.sessions.exchange.arrays import array_of, spoken_in
from halo.sessions.exchange.document import document_of
from halo.sessions.exchange.markdown import markdown_of
from halo.sessions.exchange.masking import Mask, masked, masked_json
from halo.sessions.exchange.reading import Span, Whole
from halo.sessions.reading import Unread
from halo.version import __version__

Form = Literal["markdown", "html", "json", "openai", "anthropic"]

_SEALED = frozenset({NAMES[SessionCreated], NAMES[TurnStarted]})


class Chosen(NamedTuple):
    """What of a session is wanted: turns, and whether tools are shown."""

    span: Span = Span()
    tools: bool = True


def export(whole: Whole, form: Form, chosen: Chosen, mask: Mask) -> bytes:
    """Return a session in a format, with secrets masked. Raises `UsageError` where there is nothing to show.

    A session as `json` is whole or not at all: of a part nothing could be made again.
    """
    if form == "json":
        if not chosen.span.is_all or not chosen.tools:
            raise UsageError(
                "json holds the whole session", hint="--turns and --no-tools are for the other formats"
            )
        return _neutral(whole, mask)
    found = chosen.span.chosen(whole.found)
    if chosen.span.first > max(whole.header.turns, 1):
        turns = whole.header.turns
        raise UsageError(f"there is no turn {chosen.span.first}", hint=f"the session has {turns} turns")
    if form in ("openai", "anthropic"):
        return _array(found, form, mask, tools=chosen.tools)
    document = document_of(whole.header, found, mask, tools=chosen.tools)
    if form == "markdown":
        return _encoded(markdown_of(document))
    from halo.sessions.exchange.page import page_of

    return _encoded(page_of(document))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _array(
    found: Iterable[Event | Unread], form: Literal["openai", "anthropic"], mask: Mask, *, tools: bool
) -> bytes:
    messages: list[dict[str, Any]] = masked(array_of(spoken_in(found, tools=tools), form), mask)
    lines = ",\n".join(msgspec.json.encode(message).decode() for message in messages)
    return _encoded(f"[\n{lines}\n]\n" if messages else "[]\n")


def _neutral(whole: Whole, mask: Mask) -> bytes:
    """Write the header and all events, one a line, so that the file can be read and compared."""
    header = msgspec.convert(masked(msgspec.to_builtins(whole.header), mask), type(whole.header))
    events = tuple(_event(event, mask) for event in whole.events)
    lost = tuple(mask(problem) for problem in (*whole.damaged, *whole.newer))
    empty = ExportedSession(FORMAT, KIND, __version__, header, (), lost)
    document = msgspec.to_builtins(empty)
    del document["events"]
    head = msgspec.json.encode(document)[:-1]
    lines = b",\n".join(msgspec.json.encode(event) for event in events)
    return head + b',"events":[\n' + lines + b"\n]}\n"


def _event(event: Event, mask: Mask) -> Event:
    data = _unsealed(event) if event.type in _SEALED else bytes(event.data)
    return msgspec.structs.replace(event, data=msgspec.Raw(masked_json(data, mask)))


def _unsealed(event: Event) -> bytes:
    """Return the data without the proof that this machine began the session: nobody else may have it."""
    data = msgspec.json.decode(event.data)
    for place in (data, data.get("session") if isinstance(data, dict) else None):
        if isinstance(place, dict):
            place.pop("seal", None)
    return msgspec.json.encode(data)


def write_export(path: str, data: bytes, *, force: bool) -> None:
    """Put an export at `path`, whole or not at all. Raises `UsageError` where something is, unless `force`.

    A link there is replaced, not followed.
    """
    if force:
        replace_file(path, data, sync=True)
    elif not create_file(path, data, sync=True):
        raise UsageError(f"{path} is there already", hint="--force replaces it")
