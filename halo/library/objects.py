"""Structured replies: a schema goes out, a valid value comes back or an error says why not."""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import msgspec

from halo.errors import ProviderError, UsageError
from halo.library.results import Object
from halo.library.schemas import checked, schema_of
from halo.models.adapter import Finished
from halo.records.messages import Message, ToolCall, user
from halo.runner.repair import not_empty

# Makes a model call on a history.
Call = Callable[[tuple[Message, ...]], Awaitable[Finished]]


class Wanted:
    """What a reply must be: a JSON Schema, or a type that `msgspec` can describe, such as a struct."""

    def __init__(self, schema: dict[str, Any] | type) -> None:
        """Raise UsageError for what is no schema, and for a type that JSON cannot carry."""
        import fastjsonschema

        self._type = None if isinstance(schema, dict) else schema
        self.schema = checked(schema) if isinstance(schema, dict) else schema_of(schema)
        try:
            # It writes into what it compiles.
            self._check = fastjsonschema.compile(deepcopy(self.schema), handlers=_Nothing())
        except Exception as error:  # the library stumbles over what it does not expect in many ways
            raise UsageError(
                "replies cannot be checked against this schema", hint="write it in a plainer way"
            ) from error

    def read(self, reply: Finished) -> Any:
        """Return the value of a reply; ValueError says what is wrong with it, in words for a model."""
        import fastjsonschema

        try:
            value = _decoded(reply.message.text, whole=reply.stop_reason != "max_tokens")
            value = self._check(value)
        except fastjsonschema.JsonSchemaValueException as error:
            raise ValueError(error.message) from error
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if self._type is None:
            return value
        try:
            return msgspec.convert(value, self._type)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error


class _Nothing(dict[str, Any]):
    """Fetches nothing: a schema that refers elsewhere is broken."""

    def __contains__(self, scheme: object) -> bool:
        return True

    def __missing__(self, scheme: str) -> Any:
        raise ValueError(f"the schema refers to something outside of it ({scheme}:)")


def _stripped(text: str) -> str:
    """Take the fence off that models like to put around JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3]
    return text


def _decoded(text: str, *, whole: bool) -> Any:
    """Read JSON. Malformed one is mended, but not where the reply was cut off: what is missing is unknown."""
    try:
        return msgspec.json.decode(_stripped(text))
    except msgspec.DecodeError as error:
        if not whole:
            raise ValueError("it was cut off at the limit of tokens; be brief") from error
        value = _mended(text)
        if value is None:
            raise ValueError(f"it is not valid JSON: {error}") from error
        return value


def _mended(text: str) -> Any:
    """Return what a library makes of malformed JSON, None where that is no object. It is checked later."""
    import json_repair

    value = json_repair.loads(_stripped(text))
    return value if isinstance(value, dict) else None


async def obtain(wanted: Wanted, asked: tuple[Message, ...], call: Call) -> tuple[Object, Message]:
    """Ask for a value; return it with the reply that holds it.

    A reply that does not fit goes back to the model once, with what is wrong. Raises ObjectError when the
    second one does not fit either.
    """
    first = await call(asked)
    try:
        return Object(wanted.read(first), first.usage), _spoken(first)
    except ValueError as wrong:
        again = (*asked, _spoken(first), user(_complaint(wrong)))
    second = await call(again)
    try:
        value = wanted.read(second)
    except ValueError as still:
        raise ObjectError(still, second.message.text) from still
    return Object(value, first.usage + second.usage, repaired=True), _spoken(second)


def _spoken(reply: Finished) -> Message:
    """Return what was said, without calls that nobody will answer."""
    said = reply.message
    return not_empty(
        Message(said.role, tuple(block for block in said.content if not isinstance(block, ToolCall)))
    )


def _complaint(wrong: ValueError) -> str:
    """Return what the model is told of a reply that does not fit."""
    return (
        f"Your reply does not fit the schema: {wrong}\n"
        "Answer again with the corrected JSON object alone, complete and without any other text."
    )


class ObjectError(ProviderError):
    """The model's reply did not fit the schema, the second one neither. `reply` is its text."""

    def __init__(self, wrong: ValueError, reply: str) -> None:
        super().__init__(
            f"the model's reply does not fit the schema: {wrong}",
            hint="simplify the schema, or use a model that keeps to it",
            kind="protocol",
        )
        self.reply = reply
