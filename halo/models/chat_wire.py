"""Chat Completions as JSON: requests out of neutral values, neutral values out of a stream's chunks.

Pure. Both `openai_chat` (through the real client) and `local` (plain HTTP to llama.cpp) speak it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from halo.models.adapter import Finished, ModelEvent, Request, StopReason, TextDelta, ThinkingDelta, alternate
from halo.models.failures import Call, broke_off, malformed
from halo.records.messages import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from halo.records.tools import ToolSpec
from halo.records.usage import Usage

_STOPS: dict[str, StopReason] = {
    "length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}


def chat_body(request: Request, *, own: bool) -> dict[str, Any]:
    """Build the body of a streamed call.

    `own`: it goes to api.openai.com, which wants `max_completion_tokens` and knows no `top_k`; other
    servers of this protocol know `max_tokens`.
    """
    binding = request.binding
    body: dict[str, Any] = {
        "model": binding.model,
        "messages": chat_messages(request.system, request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
        ("max_completion_tokens" if own else "max_tokens"): binding.max_tokens,
    }
    for name in ("temperature", "top_p", "seed") if own else ("temperature", "top_p", "top_k", "seed"):
        value = getattr(binding, name)
        if value is not None:
            body[name] = value
    if request.tools:
        body["tools"] = chat_tools(request.tools)
    if request.response_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            # Not strict: strict mode allows no optional arguments, and Halo's tools have them.
            "json_schema": {"name": "reply", "schema": request.response_schema, "strict": False},
        }
    return body


def chat_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Render tool specifications."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools
    ]


def chat_messages(system: str, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Render a history; consecutive messages of a role become one, each tool result its own message."""
    out: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in alternate(messages):
        out.extend(_user(message) if message.role == "user" else _assistant(message))
    return out


def _assistant(message: Message) -> Iterator[dict[str, Any]]:
    rendered: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.calls:
        rendered["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.calls
        ]
        rendered["content"] = message.text or None
    # Thinking stays home: no server of this protocol takes it back.
    if rendered["content"] or message.calls:
        yield rendered


def _user(message: Message) -> Iterator[dict[str, Any]]:
    pictures: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            text = f"Error: {block.text}" if block.is_error else block.text
            yield {"role": "tool", "tool_call_id": block.call_id, "content": text}
            pictures.extend(block.images)  # a tool message holds text only; the pictures follow as the user's
    rest = [*pictures, *(b for b in message.content if isinstance(b, (Text, Image)))]
    if any(isinstance(b, Image) for b in rest):
        yield {"role": "user", "content": [_part(b) for b in rest if isinstance(b, (Text, Image))]}
    elif text := "\n\n".join(b.text for b in rest if isinstance(b, Text) and b.text):
        yield {"role": "user", "content": text}


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    url = f"data:{block.media_type};base64,{block.data}"
    return {"type": "image_url", "image_url": {"url": url}}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    model: str | None = None
    usage: _Usage | None = None


class ChatStream:
    """Gathers the chunks of one reply. `feed` each, then `finish`."""

    def __init__(self, call: Call, *, calls_before: int = 0) -> None:
        """`calls_before`: how many calls the history holds, for servers that send calls without an id."""
        self._call = call
        self._calls_before = calls_before
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[int, _CallDelta] = {}
        self._stop: str | None = None
        self._refused = False
        self._usage = _Usage()
        self._model = ""

    def feed(self, chunk: object) -> list[ModelEvent]:
        """Take a decoded chunk and return what it adds. Raises ProviderError when it is malformed."""
        try:
            parsed = msgspec.convert(chunk, _Chunk)
        except msgspec.ValidationError as error:
            raise malformed(self._call, str(error)) from error
        self._model = parsed.model or self._model
        self._usage = parsed.usage or self._usage
        events: list[ModelEvent] = []
        for choice in parsed.choices[:1]:
            self._stop = choice.finish_reason or self._stop
            if choice.delta is not None:
                events.extend(self._add(choice.delta))
        return events

    def _add(self, delta: _Delta) -> Iterator[ModelEvent]:
        if delta.reasoning_content:
            self._thinking.append(delta.reasoning_content)
            yield ThinkingDelta(delta.reasoning_content)
        if delta.refusal:
            self._refused = True
        if text := (delta.content or "") + (delta.refusal or ""):
            self._text.append(text)
            yield TextDelta(text)
        for part in delta.tool_calls or ():
            self._add_call(part)

    def _add_call(self, part: _CallDelta) -> None:
        index = part.index
        if index is None:
            # Some servers leave the index out and send each call whole, with an id.
            index = len(self._calls) if part.id or not self._calls else len(self._calls) - 1
        call = self._calls.setdefault(index, _CallDelta(index, None, _Function("", "")))
        call.id = call.id or part.id
        if part.function is not None and call.function is not None:
            call.function.name = (call.function.name or "") + (part.function.name or "")
            call.function.arguments = (call.function.arguments or "") + (part.function.arguments or "")

    def finish(self, digest: str) -> Finished:
        """Build the whole reply. Raises ProviderError when the stream ended before the reply did."""
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
            content.append(Thinking("".join(self._thinking)))
        if self._text or not calls:
            content.append(Text("".join(self._text)))
        return Finished(
            Message("assistant", (*content, *calls)),
            stop,
            self._neutral_usage(),
            self._model,
            digest,
        )

    def _tool_calls(self) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for number, (_, part) in enumerate(sorted(self._calls.items()), self._calls_before + 1):
            function = part.function or _Function()
            if not function.name:
                raise malformed(self._call, "a tool call without a name")
            calls.append(ToolCall(part.id or f"call_{number}", function.name, function.arguments or "{}"))
        return tuple(calls)

    def _neutral_usage(self) -> Usage:
        details = self._usage.prompt_tokens_details or _PromptDetails()
        read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
        return Usage(
            uncached=max(0, self._usage.prompt_tokens - read - written),
            written=written,
            read=read,
            output=self._usage.completion_tokens,
        )


def calls_in(messages: Sequence[Message]) -> int:
    """Count the tool calls of a history."""
    return sum(len(m.calls) for m in messages)
