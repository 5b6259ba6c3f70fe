"""Structured replies: a schema goes out, a valid value comes back or an error says why not."""

from typing import Any

import msgspec

from halo.errors import ProviderError
from halo.models.adapter import Finished


class Wanted:
    """What a reply must be: a JSON Schema, or a type that `msgspec` can describe, such as a struct."""

    def __init__(self, schema: dict[str, Any] | type) -> None:
        """Raise TypeError for a type that JSON cannot carry, and ValueError for a broken schema."""
        import fastjsonschema

        self._type = None if isinstance(schema, dict) else schema
        self.schema: dict[str, Any] = schema if isinstance(schema, dict) else _schema_of(schema)
        try:
            self._check = fastjsonschema.compile(self.schema, handlers=_Nothing())
        except ValueError:
            raise
        except Exception as error:  # the library stumbles over what it does not expect in many ways
            raise ValueError(f"not a JSON Schema: {error}") from error

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
        raise ValueError(f"the schema refers to something outside itself ({scheme}:)")


def _schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of a type with an object at its top, as providers want it."""
    (whole,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    reference = whole.get("$ref", "")
    name = reference.rpartition("/")[2]
    if not name:
        top = dict(whole)
    elif _refers_to(definitions, reference):
        raise TypeError(f"{name} holds itself; wrap it in a type of its own")
    else:
        top = dict(definitions.pop(name))
    if top.get("type") != "object":
        raise TypeError(f"a reply is an object; wrap {kind} in a struct or a dataclass")
    top.setdefault("additionalProperties", False)
    if definitions:
        top["$defs"] = definitions
    return top


def _refers_to(value: Any, reference: str) -> bool:
    if isinstance(value, dict):
        return value.get("$ref") == reference or any(_refers_to(v, reference) for v in value.values())
    return isinstance(value, list) and any(_refers_to(v, reference) for v in value)


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


def complaint(wrong: ValueError) -> str:
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
