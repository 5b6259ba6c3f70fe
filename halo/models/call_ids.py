"""Ids of tool calls: each reply's are distinct, whatever the server sent. Pure."""

from collections.abc import Iterable

import msgspec

from halo.records.messages import Message, ToolCall


def unique(calls: Iterable[ToolCall], digest: str) -> tuple[ToolCall, ...]:
    """Give an id to every call that has none, and another one to those that repeat an earlier one's.

    `digest` is the request's: ids made of it are told apart from those of every other reply.
    """
    taken: set[str] = set()
    out: list[ToolCall] = []
    for number, call in enumerate(calls, 1):
        kept = call if call.id and call.id not in taken else _renamed(call, f"call_{digest[:12]}_{number}")
        taken.add(kept.id)
        out.append(kept)
    return tuple(out)


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return msgspec.structs.replace(call, id=name)


def calls_in(messages: Iterable[Message]) -> int:
    """Count the tool calls of a history."""
    return sum(len(m.calls) for m in messages)
