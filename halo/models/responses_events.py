"""The events of OpenAI's Responses, as far as they are read; other fields are passed over."""

from typing import Any

import msgspec

from halo.records.usage import Usage


class Content(msgspec.Struct):
    """A part of a message, or a paragraph of a summary."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(msgspec.Struct):
    """An item of the output; `type` says which fields count."""

    type: str = ""
    id: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    encrypted_content: str | None = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None


class InputDetails(msgspec.Struct):
    """Where the tokens of the prompt came from."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class UsageData(msgspec.Struct):
    """The figures of a response."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None

    def neutral(self) -> Usage:
        """Name them as all providers' are."""
        details = self.input_tokens_details or InputDetails()
        read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
        uncached = max(0, (self.input_tokens or 0) - read - written)
        return Usage(uncached=uncached, written=written, read=read, output=self.output_tokens or 0)


class Incomplete(msgspec.Struct):
    """Why a response is cut."""

    reason: str | None = None


class Failure(msgspec.Struct):
    """Why a response failed."""

    code: Any = None
    message: str | None = None


class Response(msgspec.Struct):
    """The response itself, as far as it has come."""

    model: str | None = None
    output: list[Item] | None = None
    usage: UsageData | None = None
    incomplete_details: Incomplete | msgspec.UnsetType | None = msgspec.UNSET
    error: Failure | None = None


class Event(msgspec.Struct):
    """One event; `type` says which fields count."""

    type: str
    output_index: int | None = None
    item_id: str | None = None
    item: Item | None = None
    delta: Any = None
    summary_index: int = 0
    response: Response | None = None
    code: Any = None
    message: str | None = None
