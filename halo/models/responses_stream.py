"""Replies of OpenAI's Responses: neutral events out of a stream's events. Pure.

An event of a type that is not known is passed over: the provider adds new ones. Servers that call themselves
compatible leave out indexes and the reason why a reply was cut (llama.cpp), deltas, or all events of an item
but the last; what no delta has said is said when the item, or the response, is done.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from halo.errors import HaloError
from halo.models.adapter import Finished, Lost, ModelEvent, Notice, StopReason, TextDelta, ThinkingDelta
from halo.models.call_ids import named
from halo.models.event_reading import read_event
from halo.models.failures import STATUS_OF, Call, broke_off, from_status, in_stream, malformed
from halo.models.responses_events import Event, Failure, Incomplete, Item, Response
from halo.records.messages import Block, Message, ProviderData, Text, Thinking, ToolCall
from halo.records.usage import Usage

_INCOMPLETE: dict[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}

# Deltas by what they add to: an item's text (refusals are words, too), thoughts, arguments.
_TEXT = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_ARGUMENTS = "response.function_call_arguments.delta"
_KNOWN = frozenset({"message", "reasoning", "function_call"})
_FINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class _Gathered:
    """An item as it comes: `item` as it was announced or, in the end, is; the rest from deltas."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.done = False
        self.text = ""
        self.thought = ""
        self.part = 0  # of the thought
        self.arguments = ""


class ResponseStream:
    """Gathers the events of one reply. `feed` each, then `finish`."""

    def __init__(self, call: Call, digest: str, bound: int, origin: ProviderData) -> None:
        """`bound`: the tokens that the reply may have; `origin` marks the model's thoughts as its own."""
        self._call, self._digest, self._bound, self._origin = call, digest, bound, origin
        self._items: dict[int | str, _Gathered] = {}
        self._response: Response | None = None
        self._usage = Usage()
        self._refused = False
        self._model = ""

    def feed(self, event: object) -> list[ModelEvent]:
        """Take a decoded event and return what it adds.

        Raises ProviderError when it is malformed, or tells of a failure.
        """
        parsed = read_event(event, Event, self._call)
        if parsed.type == "error":
            raise self._failed(Failure(parsed.code, parsed.message))
        if parsed.response is not None:
            self._model = parsed.response.model or self._model
            if parsed.type in _FINAL:
                return list(self._end(parsed))
        if parsed.item is not None and parsed.type == "response.output_item.added":
            self._items[self._key(parsed)] = _Gathered(parsed.item)
        elif parsed.item is not None and parsed.type == "response.output_item.done":
            gathered = self._items.setdefault(self._key(parsed), _Gathered(parsed.item))
            return list(self._done(gathered, parsed.item))
        elif isinstance(parsed.delta, str) and parsed.delta:
            return list(self._add(parsed, parsed.delta))
        return []

    def _key(self, event: Event) -> int | str:
        """Return what tells an item from the others: its place, else its id."""
        if event.output_index is not None:
            return event.output_index
        own = event.item.id or event.item.call_id if event.item is not None else None
        return event.item_id or own or f"item {len(self._items)}"

    def _add(self, event: Event, delta: str) -> Iterator[ModelEvent]:
        known = event.type in _TEXT or event.type in _THOUGHT or event.type == _ARGUMENTS
        if not known:
            return
        gathered = self._items.get(self._key(event))
        if gathered is None:
            raise malformed(self._call, f"{event.type} of an item that was never announced")
        if event.type in _TEXT:
            gathered.text += delta
            self._refused = self._refused or event.type == "response.refusal.delta"
            yield TextDelta(delta)
        elif event.type in _THOUGHT:
            if gathered.thought and event.summary_index != gathered.part:
                delta = "\n\n" + delta  # a summary comes in parts, each a paragraph
            gathered.part = event.summary_index
            gathered.thought += delta
            yield ThinkingDelta(delta)
        else:
            gathered.arguments += delta

    def _done(self, gathered: _Gathered, item: Item) -> Iterator[ModelEvent]:
        """Take an item as it is in the end; say what no delta has said."""
        gathered.item, gathered.done = item, True
        if item.type not in _KNOWN:
            yield Notice(f"the reply holds something of the unknown type {item.type!r}; it is left out")
        text = _words(item)
        self._refused = self._refused or any(c.type == "refusal" for c in item.content or ())
        if text.startswith(gathered.text) and len(text) > len(gathered.text):
            rest, gathered.text = text[len(gathered.text) :], text
            yield TextDelta(rest)

    def _end(self, event: Event) -> Iterator[ModelEvent]:
        response = event.response or Response()
        if response.usage is not None:
            self._usage = response.usage.neutral()
        if event.type == "response.failed" or response.error is not None:
            raise self._failed(response.error or Failure())
        self._response = response
        if not self._items:
            for number, item in enumerate(response.output or ()):
                gathered = self._items[number] = _Gathered(item)
                yield from self._done(gathered, item)

    def _failed(self, error: Failure) -> HaloError:
        code = str(error.code or "")
        body = {"error": {"code": code, "message": error.message or code or "no reason given"}}
        if not code:
            return in_stream(body, self._call)
        # A code that is not known is a bad request: a picture that cannot be read, and the like.
        return from_status(STATUS_OF.get(code, 400), body, self._call)

    def lost(self) -> Iterator[Lost]:
        """Say what was counted of a reply that failed, if anything."""
        if self._usage != Usage():
            yield Lost(self._usage, self._model)

    def finish(self, body: dict[str, Any] | None = None) -> Finished:
        """Build the whole reply to `body`. Raises ProviderError when the stream ended before it did."""
        response = self._response
        if response is None:
            raise broke_off(self._call)
        gathered = [g for _, g in sorted(self._items.items(), key=_place)]
        content = named((block for g in gathered for block in self._blocks(g)), self._digest)
        return Finished(
            Message("assistant", content or (Text(""),)),
            self._stop(response, gathered, self._usage),
            self._usage,
            self._model,
            self._digest,
            body=body,
        )

    def _stop(self, response: Response, gathered: list[_Gathered], usage: Usage) -> StopReason:
        incomplete = response.incomplete_details
        if isinstance(incomplete, Incomplete) and incomplete.reason in _INCOMPLETE:
            return _INCOMPLETE[incomplete.reason]
        if incomplete is msgspec.UNSET and usage.output >= self._bound:
            return "max_tokens"  # llama.cpp calls a reply complete that it cut
        if self._refused:
            return "refusal"
        return "tool_calls" if any(g.item.type == "function_call" for g in gathered) else "end"

    def _blocks(self, gathered: _Gathered) -> Iterator[Block]:
        item = gathered.item
        if item.type == "message":
            phase = ProviderData(self._origin.provider, {"phase": item.phase}) if item.phase else None
            if text := gathered.text:
                yield Text(text, phase)
        elif item.type == "reasoning":
            yield from self._thought(gathered)
        elif item.type == "function_call":
            if not item.name:
                raise malformed(self._call, "a tool call without a name")
            arguments = _text_of(item.arguments) or gathered.arguments or "{}"
            yield ToolCall(item.call_id or "", item.name, arguments)

    def _thought(self, gathered: _Gathered) -> Iterator[Block]:
        item = gathered.item
        text = gathered.thought or "\n\n".join(c.text or "" for c in item.summary or item.content or ())
        # Only what is done is whole; without the encrypted part there is nothing to send back.
        if gathered.done and item.encrypted_content and item.id:
            summary = [{"type": "summary_text", "text": c.text or ""} for c in item.summary or ()]
            back = {"id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}
            yield Thinking(text, ProviderData(self._origin.provider, {**self._origin.data, "item": back}))
        elif text:
            yield Thinking(text)


def _place(entry: tuple[int | str, _Gathered]) -> int:
    """Order by index; items without one stay in the order in which they came."""
    return entry[0] if isinstance(entry[0], int) else 0


def _words(item: Item) -> str:
    if item.type != "message":
        return ""
    return "".join((c.refusal if c.type == "refusal" else c.text) or "" for c in item.content or ())


def _text_of(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
