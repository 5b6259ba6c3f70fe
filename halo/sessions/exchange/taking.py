"""What is read of an array of messages: neutral messages, and remarks on all that was left out.

The array is a stranger's. What can be understood is taken, what cannot be taken is said, and a text stands in
its place where the conversation would else have a hole. Pure: nothing is fetched.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from halo.errors import ExchangeError
from halo.records.messages import Block, Image, Message, Text, ToolCall

_DATA = re.compile(r"data:(?P<kind>image/[\w.+-]{1,40});base64,", re.ASCII | re.IGNORECASE)
_SHOWN = 80  # characters of a foreign text in a remark


class Numbered(NamedTuple):
    """A message and its place in the array, from 1. Results of tools are blocks of a user's message."""

    place: int
    message: Message


class Taken(NamedTuple):
    """What was read of an array, and what was not taken over."""

    messages: tuple[Numbered, ...]
    remarks: tuple[str, ...]


class Taking:
    """Collects messages and remarks; `place` is the message that is being read."""

    def __init__(self) -> None:
        self.place = 0
        self._messages: list[Numbered] = []
        self._remarks: list[str] = []

    def each(self, items: Iterable[Any]) -> Iterable[dict[str, Any]]:
        """Yield the messages of the array one after the other. Raises `ExchangeError` for what is none."""
        for self.place, item in enumerate(items, 1):
            if not isinstance(item, dict):
                raise self.wrong(f"it is no object, but {brief(item)}")
            yield item

    def wrong(self, what: str, hint: str | None = None) -> ExchangeError:
        """Make the error for what cannot be understood."""
        return ExchangeError(f"message {self.place}: {what}", hint=hint)

    def remark(self, what: str) -> None:
        """Say what is not taken over."""
        self._remarks.append(f"message {self.place}: {what}")

    def left_out(self, what: str) -> Text:
        """Say that something is not taken over, and return what stands in its place."""
        self.remark(f"{what} is not taken over")
        return Text(f"[{what}: not taken over]")

    def text(self, value: Any, name: str) -> str:
        """Return a text. Raises `ExchangeError` for anything else."""
        if isinstance(value, str):
            return value
        raise self.wrong(f"{name} is no text, but {brief(value)}")

    def picture(self, kind: Any, data: Any) -> Block:
        """Return a picture of base64 data, or what stands in its place."""
        kind, data = self.text(kind, "the type of a picture"), self.text(data, "the data of a picture")
        try:
            base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return self.left_out("a picture whose data are no base64")
        return Image(kind, data)

    def linked_picture(self, address: Any) -> Block:
        """Return a picture that is given by an address; one that is elsewhere is not fetched."""
        url = self.text(address, "the address of a picture")
        found = _DATA.match(url)
        if found is None:
            return self.left_out(f"the picture at {brief(url)}")
        return self.picture(found["kind"].lower(), url[found.end() :])

    def call(self, identity: Any, name: Any, arguments: Any) -> ToolCall:
        """Return a call; its arguments are an object, or the text of one."""
        given = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        return ToolCall(self.text(identity, "the id of a call"), self.text(name, "the name of a tool"), given)

    def add(self, role: Literal["user", "assistant"], blocks: list[Block]) -> None:
        """Take a message; one without anything in it is left out."""
        if blocks:
            self._messages.append(Numbered(self.place, Message(role, tuple(blocks))))
        else:
            self.remark("it is empty, and left out")

    def done(self) -> Taken:
        """Return all of it."""
        return Taken(tuple(self._messages), tuple(self._remarks))


def brief(value: Any) -> str:
    """Show a foreign value in a message."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    else:
        text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
