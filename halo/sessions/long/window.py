"""What fills the model's window, from an artifact and the conversation so far. Pure.

Of the prompt it is what the manifest says of its segments; text is never taken apart again. Tokens are the
built-in estimate, as everywhere before a provider has counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.call_arguments import arguments_object
from halo.records.artifacts import Artifact
from halo.records.messages import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from halo.runner.context.context import limit_of
from halo.runner.context.keeping import tasks
from halo.runner.context.notes import ACTIVATE_SKILL, invokes_skill, is_note, skill_calls
from halo.runner.context.prune import prune
from halo.runner.context.units import View
from halo.runner.record import AROUND, IMAGE, message_tokens
from halo.sessions.history import Conversation

FORMAT = 1

Kind = Literal[
    "segment",
    "tool",
    "few_shots",
    "user",
    "assistant",
    "tool_calls",
    "tool_results",
    "thinking",
    "images",
    "skills",
    "summaries",
]
PROMPT: tuple[Kind, ...] = ("segment", "tool", "few_shots")

_Key = tuple[Kind, str]


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that takes room. `share` is its part of the window, 0 to 1.

    `name`: of a segment its id, of tools their names, of few-shots their file. `count`: how many there are.
    Of its tokens `pinned` are never left out, and `prunable` could go now as old results of tools.
    """

    kind: Kind
    name: str
    tokens: int
    share: float
    count: int = 1
    pinned: int = 0
    prunable: int = 0
    source: str = ""


class Window(msgspec.Struct, frozen=True):
    """What fills a window of `window` tokens; `limit` is where the history is shortened.

    `used` is the sum of the parts, an estimate. `filled` is what is believed: what the provider counted last
    (`counted`, 0 where it did not) and the estimate of what came since. `free` is the rest.
    """

    format: int
    artifact: str
    model: str
    window: int
    limit: int
    reply: int
    used: int
    filled: int
    counted: int
    free: int
    pinned: int
    prunable: int
    messages: int
    parts: tuple[Part, ...]


def window_of(artifact: Artifact, conversation: Conversation) -> Window:
    """Look at what the next call of a turn from `artifact` would send, but for the message to come."""
    runtime = artifact.runtime
    history = conversation.record(artifact.id)
    size = max(1, runtime.context_tokens)
    parts = (*_prompt(artifact, size), *_messages(history.messages, runtime.binding.provider, size))
    used = sum(part.tokens for part in parts)
    fixed = sum(part.tokens for part in parts if part.kind in PROMPT)
    filled = history.tokens(fixed) if history.counted else used
    return Window(
        format=FORMAT,
        artifact=artifact.id,
        model=f"{runtime.binding.provider}/{runtime.binding.model}",
        window=runtime.context_tokens,
        limit=limit_of(runtime),
        reply=runtime.binding.max_tokens,
        used=used,
        filled=filled,
        counted=history.counted,
        free=max(0, runtime.context_tokens - filled),
        pinned=sum(part.pinned for part in parts),
        prunable=sum(part.prunable for part in parts),
        messages=len(history.messages),
        parts=parts,
    )


def _prompt(artifact: Artifact, size: int) -> Iterator[Part]:
    """Yield what stands before every history: it is never shortened."""
    manifest = artifact.manifest
    for segment in manifest.segments:
        yield _fixed("segment", segment.id, segment.tokens, size, source=segment.source)
    for tool in manifest.tools:
        yield _fixed("tool", tool.name, estimate(canonical_json(tool)), size)
    shots: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for number, shot in enumerate(manifest.few_shots):
        sources = manifest.few_shot_sources
        source = sources[number].source if number < len(sources) else ""
        shots[source] += message_tokens(shot)
        counts[source] += 1
    for source, tokens in shots.items():
        yield _fixed("few_shots", source, tokens, size, count=counts[source], source=source)


def _fixed(kind: Kind, name: str, tokens: int, size: int, *, count: int = 1, source: str = "") -> Part:
    return Part(kind, name, tokens, tokens / size, count, pinned=tokens, source=source)


def _messages(messages: tuple[Message, ...], provider: str, size: int) -> Iterator[Part]:
    """Yield the classes of messages, in the order in which they first appear."""
    view = View.over(messages)
    stays = _staying(view)
    pruned = {edit.start: edit.messages[0] for edit in prune(view, 0)}
    tokens: Counter[_Key] = Counter()
    pinned: Counter[_Key] = Counter()
    prunable: Counter[_Key] = Counter()
    counts: Counter[_Key] = Counter()
    calls: dict[str, ToolCall] = {}
    for place, message in enumerate(messages):
        calls.update((call.id, call) for call in message.calls)
        found = _split(message, calls, provider)
        tokens.update(found)
        counts.update(dict.fromkeys(found, 1))
        if place in stays:
            pinned.update(found)
        if place in pruned:
            prunable.update(found)
            prunable.subtract(_split(pruned[place], calls, provider))
    for (kind, name), total in tokens.items():
        key = (kind, name)
        spared = max(0, prunable[key])
        yield Part(kind, name, total, total / size, counts[key], pinned[key], spared)


def _staying(view: View) -> set[int]:
    """Return the places of messages that no shortening leaves out: what the model is working on."""
    units = tasks(view) | frozenset(range(view.unanswered(), len(view.units)))
    return {place for number in units for place in range(view.units[number].start, view.units[number].end)}


def _split(message: Message, calls: dict[str, ToolCall], provider: str) -> dict[_Key, int]:
    """Part the tokens of a message among its classes: together they are its estimate, thoughts aside."""
    found: Counter[_Key] = Counter()
    first = _class(message, message.content[0], calls) if message.content else ("user", "")
    found[first] += AROUND
    size = 0
    for block in message.content:
        key = _class(message, block, calls)
        said = len(_spoken(block).encode())
        found[key] += estimate(b" " * (size + said)) - estimate(b" " * size)
        size += said
        pictures = _pictures(block)
        if pictures:
            found["images", key[1]] += pictures * IMAGE
        if isinstance(block, Thinking) and block.provider_data is not None:
            # Others do not get it back.
            found[key] += estimate(block.text.encode()) if block.provider_data.provider == provider else 0
    return dict(found)


def _class(message: Message, block: Block, calls: dict[str, ToolCall]) -> _Key:
    match block:
        case ToolCall():
            return (
                ("skills", _skill(block)) if block.id in skill_calls(message) else ("tool_calls", block.name)
            )
        case ToolResult():
            call = calls.get(block.call_id)
            if call is not None and call.name == ACTIVATE_SKILL:
                return "skills", _skill(call)
            return "tool_results", call.name if call is not None else ""
        case Thinking():
            return "thinking", ""
        case Image():
            return "images", ""
    if is_note(message):
        return "summaries", ""
    if invokes_skill(message):
        return "skills", "invoked by the user"
    return ("user" if message.role == "user" else "assistant"), ""


def _skill(call: ToolCall) -> str:
    value = (arguments_object(call.arguments) or {}).get("skill_id")
    return value if isinstance(value, str) else ""


def _spoken(block: Block) -> str:
    match block:
        case Text() | ToolResult():
            return block.text
        case ToolCall():
            return f"{block.name}{block.arguments}"
    return ""


def _pictures(block: Block) -> int:
    if isinstance(block, Image):
        return 1
    return len(block.images) if isinstance(block, ToolResult) else 0


def totals(parts: Iterable[Part]) -> dict[Kind, tuple[int, int]]:
    """Return tokens and number of parts by kind, in their order."""
    found: dict[Kind, tuple[int, int]] = {}
    for part in parts:
        tokens, count = found.get(part.kind, (0, 0))
        found[part.kind] = (tokens + part.tokens, count + 1)
    return found


def largest(parts: Sequence[Part], kind: Kind) -> list[Part]:
    """Return the parts of a kind, the largest first; segments in the order of the prompt."""
    found = [part for part in parts if part.kind == kind]
    return found if kind == "segment" else sorted(found, key=lambda part: -part.tokens)
