"""Mends histories from elsewhere: every call with its results right behind it, once and for good. Pure."""

from collections.abc import Sequence

import msgspec

from halo.records.events import Repaired
from halo.records.messages import Block, Message, Text, ToolCall, ToolResult
from halo.runner.calls import fresh_ids

NO_RESULT = "The result of this call is missing in the conversation. It may have taken effect."


def mend(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Repaired, ...]]:
    """Return a history as every provider takes it, and what was done for that.

    Calls without a result get an error that says so, results without a call are left out, ids that an earlier
    call has are made fresh, the results of a message are one message right behind it in the order of its
    calls, empty messages are dropped. What is returned stays as it is when it is mended again.
    """
    mending = _Mending()
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message.role == "user":
            mending.add(mending.without(message, ToolCall, ToolResult))
            continue
        end = place
        while message.calls and end < len(messages) and messages[end].role == "user":
            end += 1
        mending.add_reply(mending.without(message, ToolResult), messages[place:end])
        place = end
    return tuple(mending.messages), tuple(mending.repairs)


class _Mending:
    """A history that is being mended."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.repairs: list[Repaired] = []
        self._taken: set[str] = set()

    def add(self, message: Message) -> None:
        """Append a message, if it says anything."""
        if all(isinstance(b, Text) and not b.text and b.provider_data is None for b in message.content):
            self.repairs.append(Repaired("empty", "", note=f"an empty message ({message.role}) was dropped"))
        else:
            self.messages.append(message)

    def without(self, message: Message, *kinds: type[Block]) -> Message:
        """Take blocks of these kinds out of a message: there, they belong to nothing."""
        content = tuple(block for block in message.content if not isinstance(block, kinds))
        for block in message.content:
            if isinstance(block, kinds):
                self._orphan(block)
        return message if len(content) == len(message.content) else Message(message.role, content)

    def add_reply(self, message: Message, behind: Sequence[Message]) -> None:
        """Append a message of the model, the results of its calls, then what else is said `behind` it."""
        called = self._own_ids(message)
        self.add(called)
        if not called.calls:
            return
        results, rest, moved = self._matched(message.calls, behind)
        self.messages.append(Message("user", tuple(map(self._answered, called.calls, results))))
        if moved:
            first = called.calls[0]
            note = "the results were put right behind their calls, in one message"
            self.repairs.append(Repaired("order", first.id, first.name, note=note))
        for content in rest:
            self.add(Message("user", content))

    def _own_ids(self, message: Message) -> Message:
        called = fresh_ids(message, self._taken)
        for old, new in zip(message.calls, called.calls, strict=True):
            self._taken.add(new.id)
            if old.id != new.id:
                note = "an earlier call has its id" if old.id else "it had no id"
                self.repairs.append(Repaired("id", new.id, new.name, before=old.id, note=note))
        return called

    def _matched(
        self, calls: Sequence[ToolCall], behind: Sequence[Message]
    ) -> tuple[list[ToolResult | None], list[tuple[Block, ...]], bool]:
        """Return the result of each call, what else is said, and whether that changes the order."""
        results: list[ToolResult | None] = [None] * len(calls)
        rest: list[tuple[Block, ...]] = []
        stood: list[tuple[Block, ...]] = []
        for later in behind:
            others: list[Block] = []
            kept: list[Block] = []
            for block in self.without(later, ToolCall).content:
                if not isinstance(block, ToolResult):
                    others.append(block)
                    kept.append(block)
                elif (place := _waiting(block, calls, results)) is not None:
                    results[place] = block
                    kept.append(block)
                else:
                    self._orphan(block)
            if others or not later.content:
                rest.append(tuple(others))
            if kept or not later.content:
                stood.append(tuple(kept))
        found = tuple(result for result in results if result is not None)
        return results, rest, bool(found) and [found, *rest] != stood

    def _answered(self, call: ToolCall, result: ToolResult | None) -> ToolResult:
        if result is None:
            self.repairs.append(Repaired("orphan", call.id, call.name, note="it had no result"))
            return ToolResult(call.id, NO_RESULT, is_error=True)
        return msgspec.structs.replace(result, call_id=call.id) if result.call_id != call.id else result

    def _orphan(self, block: Block) -> None:
        if isinstance(block, ToolResult):
            self.repairs.append(
                Repaired("orphan", block.call_id, note="a result without a call was left out")
            )
        elif isinstance(block, ToolCall):
            note = "a call in a message of the user was left out"
            self.repairs.append(Repaired("orphan", block.id, block.name, before=block.arguments, note=note))


def _waiting(
    result: ToolResult, calls: Sequence[ToolCall], results: Sequence[ToolResult | None]
) -> int | None:
    """Return the place of the first call that has the id of `result` and none yet."""
    for place, call in enumerate(calls):
        if call.id == result.call_id and results[place] is None:
            return place
    return None
