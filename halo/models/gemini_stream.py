"""Replies of the Gemini API: neutral events out of the chunks of a stream. Pure.

A chunk is a whole response with more parts. Calls come whole; words and thoughts come in pieces. A signature
belongs to the part it came with, so such a part is never merged with another.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from halo.errors import ProviderError
from halo.models.adapter import Finished, Lost, ModelEvent, Notice, StopReason, TextDelta, ThinkingDelta
from halo.models.call_ids import named
from halo.models.event_reading import read_event
from halo.models.failures import Call, broke_off, malformed
from halo.models.gemini_wire import PROVIDER, SIGNATURE
from halo.records.messages import Block, Message, ProviderData, Text, Thinking, ToolCall
from halo.records.usage import Usage

# Why a reply ended that is whole. Every other reason but those below: the provider kept back the rest.
# CONTINUATION: of more output than one request may have, this much is done.
_STOPS: dict[str, StopReason] = {"STOP": "end", "MAX_TOKENS": "max_tokens", "CONTINUATION": "max_tokens"}

# The model's slip, which the next attempt may not make.
_SLIPS = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a tool call that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it does not have",
    "TOO_MANY_TOOL_CALLS": "the model made too many tool calls at once",
    "MALFORMED_RESPONSE": "the model wrote a reply that cannot be read",
}

# Both alphabets of base64 mean the same bytes; one of them is kept.
_STANDARD = str.maketrans("-_", "+/")


class _Struct(msgspec.Struct, rename="camel"):
    """A part of the protocol; fields that are not known are passed over."""


class _FunctionCall(_Struct):
    name: str = ""
    id: str | None = None
    args: dict[str, Any] | None = None


class _Part(_Struct):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(_Struct):
    parts: list[_Part] | None = None


class _Candidate(_Struct):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int = 0


class _Feedback(_Struct):
    block_reason: str | None = None
    block_reason_message: str | None = None


class _UsageData(_Struct):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def neutral(self) -> Usage:
        """Name the counts as everywhere; the cached tokens are part of the prompt's."""
        read = min(self.cached_content_token_count or 0, self.prompt_token_count or 0)
        return Usage(
            uncached=(self.prompt_token_count or 0) - read + (self.tool_use_prompt_token_count or 0),
            read=read,
            output=(self.candidates_token_count or 0) + (self.thoughts_token_count or 0),
        )


class _Chunk(_Struct):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _UsageData | None = None
    model_version: str | None = None


class GeminiStream:
    """Gathers the chunks of one reply. `feed` each, then `finish`."""

    def __init__(self, call: Call, digest: str) -> None:
        self._call, self._digest = call, digest
        self._blocks: list[Block] = []
        self._usage = _UsageData()
        self._model = ""
        self._stop: str | None = None
        self._why = ""
        self._blocked = False

    def feed(self, chunk: object) -> list[ModelEvent]:
        """Take a decoded chunk and return what it adds. Raises ProviderError when it is malformed."""
        parsed = read_event(chunk, _Chunk, self._call)
        self._model = parsed.model_version or self._model
        self._count(parsed.usage_metadata)
        return [*self._feedback(parsed.prompt_feedback), *self._candidates(parsed.candidates or [])]

    def _feedback(self, feedback: _Feedback | None) -> Iterator[ModelEvent]:
        if feedback is not None and feedback.block_reason and not self._blocked:
            self._blocked = True
            why = self._reason(feedback.block_reason, feedback.block_reason_message)
            yield Notice(f"{PROVIDER} does not answer this prompt: {why}")

    def _candidates(self, candidates: list[_Candidate]) -> Iterator[ModelEvent]:
        for candidate in candidates:
            if candidate.index == 0:
                for part in (candidate.content.parts if candidate.content else None) or ():
                    yield from self._add(part)
                self._stop = candidate.finish_reason or self._stop
                self._why = candidate.finish_message or self._why

    def _reason(self, word: str, words: str | None) -> str:
        return f"{word} ({self._call.redact(words)})" if words else self._call.redact(word)

    def _add(self, part: _Part) -> Iterator[ModelEvent]:
        signature = part.thought_signature
        data = ProviderData(PROVIDER, {SIGNATURE: signature.translate(_STANDARD)}) if signature else None
        if part.function_call is not None:
            call = part.function_call
            if not call.name:
                raise malformed(self._call, "a tool call without a name")
            arguments = msgspec.json.encode(call.args or {}).decode()
            self._blocks.append(ToolCall(call.id or "", call.name, arguments, data))
        elif part.text is None and data is None:
            yield Notice("the reply holds something that is neither text nor a call; it is left out")
        else:
            yield from self._say(part.text or "", data, thought=part.thought)

    def _say(self, text: str, data: ProviderData | None, *, thought: bool) -> Iterator[ModelEvent]:
        kind = Thinking if thought else Text
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, kind) and last.provider_data is None and data is None:
            self._blocks[-1] = kind(last.text + text)
        elif text or data is not None:
            self._blocks.append(kind(text, data))
        if text:
            yield ThinkingDelta(text) if thought else TextDelta(text)

    def _count(self, usage: _UsageData | None) -> None:
        """Take over the counts that are there; later ones are cumulative."""
        for name in _UsageData.__struct_fields__:
            value = getattr(usage, name, None)
            if value is not None:
                setattr(self._usage, name, value)

    def lost(self) -> Iterator[Lost]:
        """Say what was counted of a reply that failed, if anything."""
        if (usage := self._usage.neutral()) != Usage():
            yield Lost(usage, self._model)

    def finish(
        self, body: dict[str, Any] | None = None, *, written: int = 0, promised: int = 0
    ) -> tuple[ModelEvent, ...]:
        """Build the whole reply to `body`, the last of the events.

        `written`: tokens of a cached content that was made for this call; what it read of that was written.
        `promised`: those of one that was named.
        Raises ProviderError when the stream ended before the reply did, or the model's reply is none.
        """
        if self._stop is None and not self._blocked:
            raise broke_off(self._call)
        stop, notices = self._stopped()
        content = named(self._blocks, self._digest)
        if stop == "end" and any(isinstance(b, ToolCall) for b in content):
            stop = "tool_calls"
        usage = self._usage.neutral()
        if written:
            usage = msgspec.structs.replace(usage, written=usage.read, read=0)
        message = Message("assistant", content or (Text(""),))
        finished = Finished(message, stop, usage, self._model, self._digest, body=body, promised=promised)
        return (*notices, finished)

    def _stopped(self) -> tuple[StopReason, tuple[Notice, ...]]:
        reason = self._stop
        if reason in _STOPS:
            return _STOPS[reason], ()
        if reason is None:
            return "refusal", ()  # the prompt was blocked, which has been said
        where = f"{self._call.provider} at {self._call.endpoint}"
        if reason in _SLIPS:
            why = f"{_SLIPS[reason]} ({self._reason(reason, self._why)})"
            raise ProviderError(f"{where}: {why}", hint="send the message again", kind="transient")
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ProviderError(
                f"{where} misses the signature of a thought in the history ({reason})",
                hint="start a new session, or choose a model before Gemini 3",
            )
        return "refusal", (Notice(f"{PROVIDER} ended the reply: {self._reason(reason, self._why)}"),)
