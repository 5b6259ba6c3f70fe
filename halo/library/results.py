"""What an agent gives back to a program."""

from typing import Any

import msgspec

from halo.library.memory import Memory
from halo.records.events import ContextShortened, TurnEnded, UsageLost, UsageReported
from halo.records.messages import Message, ToolCall
from halo.records.usage import Usage
from halo.runner.turn import TurnEvent


class Result(msgspec.Struct, frozen=True):
    """What a turn came to.

    `text` is the answer: the text of the last message. `messages` are what the turn added to the history,
    the input first. `reason` is that of `turn.ended` (`done`, `max_tokens`, `steps`, ...). `cost` is None
    where the model has no price; `steps` counts model calls.
    """

    text: str
    reason: str
    messages: tuple[Message, ...]
    usage: Usage
    steps: int
    model: str
    cost: float | None = None
    currency: str = ""


class Object(msgspec.Struct, frozen=True):
    """A structured reply: `value` is valid; `repaired` says that the first one was not."""

    value: Any
    usage: Usage
    repaired: bool = False


class Reply(msgspec.Struct, frozen=True):
    """One reply of a model in manual control: its words, and the calls that you answer."""

    message: Message
    stop_reason: str
    usage: Usage

    @property
    def text(self) -> str:
        """Its words."""
        return self.message.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, all of which `submit_tool_results` answers together."""
        return self.message.calls


class Stats(msgspec.Struct, frozen=True):
    """What an agent has used since it was loaded.

    `usage` and `cost` are also of attempts that failed, as far as the provider had counted by then; `calls`
    went through. `expected` are the tokens that should have come from the provider's cache, by what was sent
    before; `usage.read` are those that did.
    """

    turns: int = 0
    calls: int = 0
    usage: Usage = Usage()
    expected: int = 0
    cost: float | None = None
    currency: str = ""

    def with_call(self, call: UsageReported) -> "Stats":
        """Add a model call. Once a call has no price, the sum has none."""
        cost = None if call.cost is None else (self.cost or 0.0) + call.cost
        return Stats(
            self.turns,
            self.calls + 1,
            self.usage + call.usage,
            self.expected + call.expected,
            cost if self.calls == 0 or self.cost is not None else None,
            call.currency or self.currency,
        )

    def with_lost(self, lost: UsageLost) -> "Stats":
        """Add an attempt that failed."""
        unpriced = lost.cost is None or (self.calls > 0 and self.cost is None)
        return msgspec.structs.replace(
            self,
            usage=self.usage + lost.usage,
            cost=None if unpriced else (self.cost or 0.0) + (lost.cost or 0.0),
            currency=lost.currency or self.currency,
        )

    @property
    def cached(self) -> float:
        """The part of all prompt tokens that came from a cache, 0 to 1."""
        return self.usage.read / self.usage.prompt if self.usage.prompt else 0.0


class Gathered:
    """What a running turn came to so far."""

    def __init__(self, asked: Message) -> None:
        self._memory = Memory()
        self._memory.add(asked)
        self._stats = Stats()
        self._model = self._reason = ""

    def add(self, event: TurnEvent) -> None:
        """Take an event of the turn."""
        if isinstance(event, UsageReported):
            self._stats, self._model = self._stats.with_call(event), event.model
        elif isinstance(event, UsageLost):
            self._stats = self._stats.with_lost(event)
        elif isinstance(event, TurnEnded):
            self._reason = event.reason
        elif not isinstance(event, ContextShortened):  # it changes what was before this turn, too
            self._memory.feed(event)

    def result(self) -> Result:
        """Return the whole."""
        self._memory.settle()
        said = [m.text for m in self._memory.messages if m.role == "assistant"]
        return Result(
            text=said[-1] if said else "",
            reason=self._reason,
            messages=self._memory.messages,
            usage=self._stats.usage,
            steps=self._stats.calls,
            model=self._model,
            cost=self._stats.cost,
            currency=self._stats.currency,
        )
