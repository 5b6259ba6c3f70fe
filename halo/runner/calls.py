"""Ids of tool calls: each stands for one call, within a message and across a history."""

from collections.abc import Collection

import msgspec

from halo.records.messages import Block, Message, ToolCall

# Providers take ids of at least 40 characters; what is put behind one fits as well.
_LONGEST = 32


def call_ids(messages: tuple[Message, ...]) -> set[str]:
    """Return the ids of all calls in a history."""
    return {call.id for message in messages for call in message.calls}


def fresh_ids(message: Message, taken: Collection[str]) -> Message:
    """Give every call whose id is empty, in `taken` or an earlier call's in `message`, an id of its own.

    Small models and some servers repeat ids (`call_0` in every message). Results are matched to calls by
    id, so a repeated one would lose a result. The new id follows from the old and what is taken: the same
    history gives the same ids. A message without repetitions is returned as it is.
    """
    if not message.calls:
        return message
    used = set(taken)
    avoid = used | call_ids((message,))
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            identity = block.id if block.id and block.id not in used else _fresh(block.id, avoid)
            used.add(identity)
            avoid.add(identity)
            content.append(block if identity == block.id else msgspec.structs.replace(block, id=identity))
        else:
            content.append(block)
    return Message(message.role, tuple(content))


def _fresh(identity: str, avoid: set[str]) -> str:
    base = identity[:_LONGEST] or "call"
    number = 2
    while f"{base}_{number}" in avoid:
        number += 1
    return f"{base}_{number}"
