"""Replies of Chat Completions: neutral events out of a stream's chunks. Pure.

Servers that call themselves compatible differ in what they send. All of that is tolerated here and nowhere
else: calls without an id or an index, or all at the same index (Ollama, Gemini); names repeated in every
delta; arguments as an object instead of text (Ollama, llama.cpp); thoughts as `reasoning` (vLLM, Ollama) or
as parts of the content (Mistral); figures in a chunk without choices, inside a choice, twice, the second time
zero, or never; `stop` after calls (Ollama); an error as a chunk (vLLM).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from halo.models.adapter import Finished, Lost, ModelEvent, StopReason, TextDelta, ThinkingDelta
from halo.models.call_arguments import arguments_object
from halo.models.call_ids import named
from halo.models.event_reading import read_event
from halo.models.failures import Call, broke_off, in_stream, malformed
from halo.records.messages import Block, Message, ProviderData, Text, Thinking, ToolCall
from halo.records.usage import Usage

_STOPS: dict[str, StopReason] = {
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(msgspec.Struct):
    type: str = ""
    text: str | None = None
    thinking: "str | list[_Part] | None" = None


class _Delta(msgspec.Struct):
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def neutral(self) -> Usage:
        details = self.prompt_tokens_details or _PromptDetails()
        hits = self.prompt_cache_hit_tokens  # DeepSeek's counter; its misses are the rest
        read = (details.cached_tokens if hits is None else hits) or 0
        written = details.cache_write_tokens or 0
        uncached = max(0, (self.prompt_tokens or 0) - read - written)
        return Usage(uncached=uncached, written=written, read=read, output=self.completion_tokens or 0)


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    object: str | None = None
    message: Any = None
    code: Any = None


class _Gathered:
    """A call as it comes."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = ""

    def add(self, part: _CallDelta) -> None:
        self.id = self.id or part.id or ""
        if part.function is not None:
            self.name = self.name or part.function.name or ""
            self.arguments += _text_of(part.function.arguments)

    def ends_before(self, part: _CallDelta) -> bool:
        """Say whether a delta at the same place begins another call."""
        if part.id and self.id:
            return part.id != self.id
        named = part.function is not None and part.function.name
        return bool(named and self.name) and arguments_object(self.arguments) is not None


class ChatStream:
    """Gathers the chunks of one reply. `feed` each, then `finish`."""

    def __init__(self, call: Call, digest: str, *, marks_thoughts: bool = False) -> None:
        """`digest` is the request's; calls without an id are named after it.

        `marks_thoughts`: what the model thinks is marked as its provider's, to go back there.
        """
        self._call = call
        self._digest = digest
        self._marks_thoughts = marks_thoughts
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Gathered] = []
        self._at: dict[int, _Gathered] = {}
        self._stop: str | None = None
        self._refused = False
        self._usage = Usage()
        self._model = ""

    def feed(self, chunk: object) -> list[ModelEvent]:
        """Take a decoded chunk and return what it adds. Raises ProviderError when it is malformed."""
        parsed = read_event(chunk, _Chunk, self._call)
        if parsed.object == "error":
            raise in_stream({"message": str(parsed.message), "code": parsed.code}, self._call)
        self._model = parsed.model or self._model
        self._count(parsed.usage)
        events: list[ModelEvent] = []
        for choice in (parsed.choices or ())[:1]:
            self._stop = choice.finish_reason or self._stop
            self._count(choice.usage)
            if choice.delta is not None:
                events.extend(self._add(choice.delta))
        return events

    def _count(self, usage: _Usage | None) -> None:
        """Take over figures; later ones are cumulative, and zeros after figures mean nothing."""
        if usage is not None and (usage.prompt_tokens or usage.completion_tokens):
            self._usage = usage.neutral()

    def _add(self, delta: _Delta) -> Iterator[ModelEvent]:
        thought, text = _split(delta)
        if thought:
            self._thinking.append(thought)
            yield ThinkingDelta(thought)
        if delta.refusal:
            self._refused = True
            text += delta.refusal
        if text:
            self._text.append(text)
            yield TextDelta(text)
        for part in delta.tool_calls or ():
            self._place(part).add(part)

    def _place(self, part: _CallDelta) -> _Gathered:
        """Return the call that a delta belongs to."""
        last = self._calls[-1] if self._calls else None
        current = last if part.index is None else self._at.get(part.index)
        if current is None or current.ends_before(part):
            current = _Gathered()
            self._calls.append(current)
        if part.index is not None:
            self._at[part.index] = current
        return current

    def lost(self) -> Iterator[Lost]:
        """Say what was counted of a reply that failed, if anything."""
        if self._usage != Usage():
            yield Lost(self._usage, self._model)

    def finish(self, body: dict[str, Any] | None = None) -> Finished:
        """Build the whole reply to `body`. Raises ProviderError when the stream ended before it did."""
        if self._stop is None:
            raise broke_off(self._call)
        calls = self._tool_calls()
        stop = _STOPS.get(self._stop, "end")
        if self._refused:
            stop = "refusal"
        elif calls and stop == "end":
            stop = "tool_calls"  # some servers say "stop" after calls
        content: list[Block] = []
        if self._thinking:
            mark = ProviderData(self._call.provider, {}) if self._marks_thoughts else None
            content.append(Thinking("".join(self._thinking), mark))
        if self._text or not calls:
            content.append(Text("".join(self._text)))
        message = Message("assistant", named((*content, *calls), self._digest))
        return Finished(message, stop, self._usage, self._model, self._digest, body=body)

    def _tool_calls(self) -> list[ToolCall]:
        for call in self._calls:
            if not call.name:
                raise malformed(self._call, "a tool call without a name")
        return [ToolCall(c.id, c.name, c.arguments or "{}") for c in self._calls]


def _split(delta: _Delta) -> tuple[str, str]:
    """Return what a delta adds to the thoughts, and what to the text."""
    thought = delta.reasoning_content or delta.reasoning or ""
    if not isinstance(delta.content, list):
        return thought, delta.content or ""
    text = "".join(part.text or "" for part in delta.content if part.type != "thinking")
    return thought + "".join(map(_thought, delta.content)), text


def _thought(part: _Part) -> str:
    if isinstance(part.thinking, list):
        return "".join(inner.text or "" for inner in part.thinking)
    return part.thinking or ""


def _text_of(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
