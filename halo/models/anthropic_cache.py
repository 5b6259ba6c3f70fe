"""Where an Anthropic request is marked for the prompt cache. Pure.

The protocol caches everything up to a mark, in the order tools, system, messages. At most four marks; a
longer-lived one stands before a shorter-lived one; below the model's minimum nothing is cached and nothing
is said, so no mark is set there (`halo check` tells of such a prompt: H602). A mark finds what an earlier
request left at most 20 blocks before it, which parallel calls exceed in one step: a second mark closes that
gap.
Source: the provider's guide to prompt caching, as of August 2026.
"""

from collections.abc import Sequence
from typing import Any

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.records.artifacts import CacheTime

# Blocks between the last mark and the one before it: both together look back 20 + 15.
_GAP = 15

# Blocks of thinking cannot be marked, nor can blank text, which is never sent.
_MARKABLE = frozenset({"text", "image", "tool_use", "tool_result"})

Json = dict[str, Any]


def marked(body: Json, static_prefix: str, cache: CacheTime, minimum: int | None) -> Json:
    """Return the request with its marks; what is marked is copied, nothing is changed.

    The first block of `system` holds `static_prefix` unless that is blank. `minimum` is the shortest prefix
    in tokens that the model caches, None where that is not known. The prefix lives as long as `cache` says;
    the conversation, which grows, for five minutes.
    """
    if cache == "off":
        return body
    out, least = dict(body), minimum or 0
    tools: list[Json] = body.get("tools", [])
    system: list[Json] = body.get("system", [])
    tokens = estimate(canonical_json(tools)) if tools else 0
    if tools and tokens >= least:
        out["tools"] = [*tools[:-1], _mark(tools[-1], cache)]
    if system and static_prefix.strip():
        tokens += estimate(static_prefix.encode())
        if tokens >= least:
            out["system"] = [_mark(system[0], cache), *system[1:]]
    if tokens >= least or _reach(body["messages"], least - tokens):
        out["messages"] = _mark_conversation(body["messages"])
    return out


def _mark(block: Json, cache: CacheTime) -> Json:
    control = {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": cache}
    return {**block, "cache_control": control}


def _reach(messages: Sequence[Json], tokens: int) -> bool:
    """Tell whether the conversation has so many tokens; looks no further than it must."""
    for message in messages:
        tokens -= estimate(canonical_json(message["content"]))
        if tokens <= 0:
            return True
    return False


def _mark_conversation(messages: Sequence[Json]) -> list[Json]:
    """Mark its end, and the message that lies at least `_GAP` blocks before it."""
    out = list(messages)
    blocks, marks = 0, 0
    for number in range(len(out) - 1, -1, -1):
        if marks == 0 or blocks >= _GAP:
            found = _marked_message(out[number])
            if found is not None:
                out[number] = found
                marks += 1
            if marks == 2:
                break
        blocks += len(out[number]["content"])
    return out


def _marked_message(message: Json) -> Json | None:
    """Return the message with a mark on its last block that takes one; None when none does."""
    content: list[Json] = message["content"]
    for index in range(len(content) - 1, -1, -1):
        if content[index]["type"] in _MARKABLE:
            return {
                **message,
                "content": [*content[:index], _mark(content[index], "5m"), *content[index + 1 :]],
            }
    return None
