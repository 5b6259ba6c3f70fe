"""The units of a history: what can only stay or go together. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from halo.records.messages import Message, ToolResult
from halo.runner.record import History, message_tokens


class Unit(NamedTuple):
    """Messages `start` to `end` (exclusive, from 0)."""

    start: int
    end: int


def has_results(message: Message) -> bool:
    """Tell whether a message answers calls."""
    return any(isinstance(block, ToolResult) for block in message.content)


def asks(message: Message) -> bool:
    """Tell whether a history may begin with this message: a user's that answers no calls."""
    return message.role == "user" and not has_results(message)


def units(messages: Sequence[Message]) -> tuple[Unit, ...]:
    """Part a history: a message with calls and the results behind it are one, everything else is alone."""
    found: list[Unit] = []
    start = 0
    while start < len(messages):
        end = start + 1
        if messages[start].calls:
            while end < len(messages) and has_results(messages[end]):
                end += 1
        found.append(Unit(start, end))
        start = end
    return tuple(found)


class View(NamedTuple):
    """A history as strategies see it: `weights` are the estimated tokens of each message."""

    messages: tuple[Message, ...]
    weights: Sequence[int]
    units: tuple[Unit, ...]

    @classmethod
    def of(cls, history: History) -> "View":
        """Look at a history as it is now."""
        return cls(history.messages, tuple(history.weights), units(history.messages))

    @classmethod
    def over(cls, messages: tuple[Message, ...]) -> "View":
        """Look at messages."""
        return cls(messages, tuple(map(message_tokens, messages)), units(messages))

    def weight(self, unit: Unit) -> int:
        """Return the tokens of a unit, or of any other stretch."""
        return sum(self.weights[unit.start : unit.end])

    def unanswered(self) -> int:
        """Return the number of the first unit that the model has not answered yet.

        Results of tools are answered by the next message of the model, and so is what a user says.
        """
        first = len(self.units)
        while first and asks(self.messages[self.units[first - 1].start]):
            first -= 1
        if first and self.messages[self.units[first - 1].start].calls:
            first -= 1
        return first
