"""Ids of tool calls that a server left out. Ids that repeat are the runner's matter (`halo.runner.calls`)."""

from collections.abc import Iterable

import msgspec

from halo.records.messages import Block, ToolCall


def named(blocks: Iterable[Block], digest: str) -> tuple[Block, ...]:
    """Give every call of a reply that has no id one that is made of the request's digest."""
    return tuple(
        msgspec.structs.replace(block, id=f"call_{digest[:12]}_{number}")
        if isinstance(block, ToolCall) and not block.id
        else block
        for number, block in enumerate(blocks, 1)
    )
