"""The history of a turn: it grows, and what is asked of it again and again is kept, not counted anew."""

from collections.abc import Iterable, Sequence

from halo.compiler.tokens import estimate, spoken
from halo.records.events import Edit
from halo.records.messages import Image, Message, ToolResult

# Tokens of a picture. Providers count by its size, a large one at about this.
IMAGE = 1600

# Tokens of a message beside its words: the role, the marks around it.
AROUND = 4


def message_tokens(message: Message) -> int:
    """Estimate the tokens of a message."""
    pictures = 0
    for block in message.content:
        if isinstance(block, Image):
            pictures += 1
        elif isinstance(block, ToolResult):
            pictures += len(block.images)
    return estimate(spoken(message).encode()) + pictures * IMAGE + AROUND


class History:
    """Messages, with their estimated tokens and the ids of their calls.

    `taken` are ids that calls of few-shots have. Taking a long history over costs its length once; every
    message after that costs itself.
    """

    def __init__(self, messages: Iterable[Message] = (), taken: Iterable[str] = ()) -> None:
        self._messages: tuple[Message, ...] = ()
        self._weights: list[int] = []
        self._calls = set(taken)
        self._counted = (
            0  # tokens of the prefix and the first `_measured` messages, as a provider counted them
        )
        self._measured = 0
        self.extend(messages)

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages."""
        return self._messages

    @property
    def call_ids(self) -> set[str]:
        """Ids that calls have; another one must not have the same."""
        return self._calls

    @property
    def weights(self) -> Sequence[int]:
        """The estimated tokens of each message; counted when they are first asked for."""
        self._weights.extend(map(message_tokens, self._messages[len(self._weights) :]))
        return self._weights

    def copy(self) -> "History":
        """Return the same, to grow apart from this one; what is estimated for it is kept here, too."""
        copied = History()
        copied._messages, copied._weights = self._messages, [*self.weights]
        copied._calls = set(self._calls)
        copied._counted, copied._measured = self._counted, self._measured
        return copied

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages."""
        new = tuple(messages)
        self._messages += new
        self._calls.update(call.id for message in new for call in message.calls)

    @property
    def counted(self) -> int:
        """The tokens of the last request and its reply, as a provider counted them; 0 before the first."""
        return self._counted

    def measured(self, tokens: int, messages: int | None = None) -> None:
        """Take over what a provider counted for a request and its reply.

        The reply is the last message here, or the last of the first `messages`.
        """
        self._counted = tokens
        self._measured = len(self._messages) if messages is None else messages

    def tokens(self, prefix: int) -> int:
        """Return the tokens of a request; `prefix` is the estimate of what stands before the history.

        What a provider has counted is believed, what came since is estimated.
        """
        if self._counted:
            return self._counted + sum(message_tokens(m) for m in self._messages[self._measured :])
        return prefix + sum(self.weights)

    def apply(self, edits: Iterable[Edit]) -> None:
        """Put messages in the place of others, one edit after the other (`ContextShortened`).

        Ids of calls that are cut stay taken. Raises ValueError for an edit that does not fit.
        """
        self._messages = applied(self._messages, edits)
        self._weights.clear()
        self._counted = self._measured = 0


def applied(messages: tuple[Message, ...], edits: Iterable[Edit]) -> tuple[Message, ...]:
    """Return `messages` with the edits made, in their order. Raises ValueError for one that does not fit."""
    for edit in edits:
        if not 0 <= edit.start <= edit.end <= len(messages):
            raise ValueError(f"messages {edit.start} to {edit.end} of {len(messages)} cannot be replaced")
        messages = (*messages[: edit.start], *edit.messages, *messages[edit.end :])
    return messages
