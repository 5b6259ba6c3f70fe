"""The history of an agent that lives in memory: grown by the events of turns, always fit to be sent."""

from halo.records.events import ContextShortened, MessageAdded, ToolResultAdded, UsageReported
from halo.records.messages import Message, ToolResult
from halo.runner.record import History
from halo.runner.turn import TurnEvent

INTERRUPTED = "This call was interrupted before it had a result. It may have taken effect."


class Memory:
    """Messages so far. Every call in them has its result, except those of the last message while they run."""

    def __init__(self, messages: tuple[Message, ...] = ()) -> None:
        self._history = History(messages)
        self._results: dict[str, ToolResult | None] = {}

    @property
    def history(self) -> History:
        """The history, for a turn to grow apart from this one."""
        return self._history.copy()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history."""
        return self._history.messages

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Ids of the calls without a result."""
        return tuple(call for call, result in self._results.items() if result is None)

    def __len__(self) -> int:
        return len(self._history.messages)

    def add(self, message: Message) -> None:
        """Append a message; calls in it are open from now on."""
        self.settle()
        self._history.extend((message,))
        self._results = dict.fromkeys(call.id for call in message.calls)

    def feed(self, event: TurnEvent) -> None:
        """Take over what a turn records."""
        match event:
            case MessageAdded():
                self.add(event.message)
            case ToolResultAdded():
                self.answer(event.result)
            case ContextShortened():
                self.settle()
                self._history.apply(event.edits)
            case UsageReported() if event.usage.prompt and self._history.messages[-1].role == "assistant":
                self._history.measured(event.usage.prompt + event.usage.output)
            case _:
                pass

    def answer(self, result: ToolResult) -> None:
        """Take the result of an open call; when the last one has it, all of them are one message."""
        if result.call_id in self._results:
            self._results[result.call_id] = result
            if not self.open_calls:
                self.settle()

    def settle(self) -> None:
        """Answer what is open as interrupted: no call ever stays without a result."""
        if self._results:
            results = (
                result or ToolResult(call, INTERRUPTED, is_error=True)
                for call, result in self._results.items()
            )
            self._results, settled = {}, tuple(results)
            self._history.extend((Message("user", settled),))

    def copy(self) -> "Memory":
        """Return the same history, to be changed apart from this one."""
        copied = Memory()
        copied._history = self._history.copy()
        copied._results = dict(self._results)
        return copied
