"""Reads one decoded event of a stream as what it should be."""

from typing import TypeVar

import msgspec

from halo.models.characters import whole_characters
from halo.models.failures import Call, malformed

_T = TypeVar("_T")


def read_event(event: object, kind: type[_T], call: Call) -> _T:
    """Convert an event. Raises ProviderError when it does not follow the protocol."""
    try:
        return msgspec.convert(whole_characters(event), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise malformed(call, str(error)) from error
