"""What every provider's protocol is translated to: one request in, a stream of neutral events out.

Prefix and history arrive separately, so that each adapter decides how to have the prefix cached.
"""

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol

import msgspec

from halo.models.prefix import Prefix
from halo.records.artifacts import Binding
from halo.records.messages import Message
from halo.records.usage import Usage

StopReason = Literal["end", "tool_calls", "max_tokens", "refusal"]


class Request(msgspec.Struct, frozen=True):
    """One model call.

    `history` follows the few-shots of `prefix`; its last message is the user's or holds tool results.
    `response_schema`, a JSON Schema, constrains the whole reply. `tool_choice: none` forbids calls and leaves
    the tools where they are, so that the prefix stays the one that is cached.
    """

    prefix: Prefix
    history: tuple[Message, ...]
    binding: Binding
    response_schema: dict[str, Any] | None = None
    tool_choice: Literal["auto", "none"] = "auto"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The few-shots, then the history."""
        return (*self.prefix.few_shots, *self.history)


class TextDelta(msgspec.Struct, frozen=True):
    """More words for the reader."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More of what the model thinks before it answers."""

    text: str


class Notice(msgspec.Struct, frozen=True):
    """Progress for stderr, such as `restored 1,204 prompt tokens`."""

    text: str


class Retrying(msgspec.Struct, frozen=True):
    """The call failed in a way that passes and is made again in `seconds`; it is the `attempt`-th anew.

    What this call has said so far is void: the next attempt says it from the beginning.
    """

    reason: str
    seconds: float
    attempt: int


class Lost(msgspec.Struct, frozen=True):
    """An attempt failed after the provider had counted tokens: `usage`, as far as it was told by then.

    They are paid for like those of a reply. What failed comes next: a `Retrying`, or an error. `model` is the
    id that the provider reported.
    """

    usage: Usage
    model: str


class Finished(msgspec.Struct, frozen=True):
    """The reply is whole.

    `model` is the id that the provider reported. `request_digest` is the SHA-256 of the request as it
    was rendered (`halo.models.rendering`). `restored`: prompt tokens
    whose state was loaded from disk before the call. `body` is what was sent, for comparison with the next
    one; nobody changes it. `promised`: tokens of a resource at the provider that the call named and the next
    one will read. `expected` tokens should have come from the cache, and `prefix` is a digest of the
    filled prefix: `halo.models.watching` sets both. After `max_tokens` the last call in `message` may have
    arguments that are cut short.
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str
    request_digest: str
    restored: int = 0
    body: dict[str, Any] | None = None
    promised: int = 0
    expected: int = 0
    prefix: str = ""


ModelEvent = TextDelta | ThinkingDelta | Notice | Retrying | Lost | Finished


class Adapter(Protocol):
    """A provider's protocol, ready to be spoken. Errors are HaloErrors, and never name a key."""

    @property
    def provider(self) -> str:
        """The name that `provider_data` carries."""

    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Run one call; a stream that succeeds ends in exactly one Finished.

        A caller that breaks off early closes the generator (`contextlib.aclosing`), which ends the call.
        Raises ProviderError when the model's side refuses or breaks off, StartError when it cannot begin.
        """

    async def count(self, request: Request) -> int:
        """Ask the model's side how many tokens the whole request has; nothing is generated.

        Raises as `stream` does.
        """

    async def close(self) -> None:
        """Let go of connections, threads and engines. May be called twice."""
