"""Merges parts of an answer that come close after one another. Pure: time is a parameter, in seconds."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from halo.sessions.delivery.chunks import UNLIMITED
from halo.sessions.delivery.payloads import Payload

Joiner = Literal["\n\n", "\n", " "]

JOINERS: dict[str, Joiner] = {"paragraph": "\n\n", "newline": "\n", "sentence": " "}


class CoalesceConfig(msgspec.Struct, frozen=True):
    """When merged parts are sent.

    What has `min_chars` is sent when nothing came for `idle` seconds; less waits for more, or for the end of
    the message. No merged payload has more than `max_chars` (0 or less: no limit) or `max_lines` (0: any
    number). `joiner` stands between parts of which nobody knows what was between them.
    """

    min_chars: int = 800
    max_chars: int = 4000
    max_lines: int = 0
    idle: float = 1.0
    joiner: str = "\n\n"

    @property
    def limit(self) -> int:
        """The most characters of a merged payload."""
        return self.max_chars if self.max_chars > 0 else UNLIMITED


class Coalescer:
    """Holds one payload back, to merge the next ones into it. What it returns is to be sent in that order."""

    def __init__(self, config: CoalesceConfig) -> None:
        self._config = config
        self._held: Payload | None = None
        self._since = 0.0

    @property
    def due(self) -> float | None:
        """When `tick` has something to send, should nothing come before; None while nothing is waited for."""
        if self._held is None or len(self._held.text) < self._config.min_chars:
            return None
        return self._since + self._config.idle

    def put(self, payload: Payload, now: float) -> tuple[Payload, ...]:
        """Take a payload; return what is to be sent now.

        What is not text, or not to be merged, is sent at once, behind what waits. Parts are merged that agree
        in what they reply to and in whom they are for; what they agree in stays on what is merged.
        """
        if payload.is_empty:
            return ()
        if not payload.is_text or payload.alone:
            return (*self.flush(), payload)
        sent: tuple[Payload, ...] = ()
        held = self._held
        merged = None if held is None or not _agree(held, payload) else self._merged(held, payload)
        if merged is None:
            sent, merged = self.flush(), payload
        self._held, self._since = merged, now
        return (*sent, *self.flush()) if self._is_full(merged) else sent

    def tick(self, now: float) -> tuple[Payload, ...]:
        """Return what nothing was added to for long enough."""
        due = self.due
        return self.flush() if due is not None and now >= due else ()

    def flush(self) -> tuple[Payload, ...]:
        """Return what waits, however little it is."""
        held, self._held = self._held, None
        return (held,) if held is not None else ()

    def _is_full(self, payload: Payload) -> bool:
        return len(payload.text) >= self._config.limit

    def _merged(self, first: Payload, second: Payload) -> Payload | None:
        """Return both as one; None where that is too much."""
        text = joined(first, second, self._config.joiner)
        lines = self._config.max_lines
        if len(text) > self._config.limit or (lines > 0 and text.count("\n") >= lines):
            return None
        return replace(first, text=text, closing=second.closing, separator=second.separator)


def joined(first: Payload, second: Payload, joiner: str) -> str:
    """Join two texts with what was between them in the answer, else with `joiner`.

    The lines by which a block of code was closed and opened again between them fall away. Two parts with
    something between them are of the same text: whoever begins another one flushes first.
    """
    if first.separator is None:
        return first.text.rstrip() + joiner + second.text
    return first.text.removesuffix(first.closing) + first.separator + second.text.removeprefix(second.opening)


def _agree(first: Payload, second: Payload) -> bool:
    return (first.reply_to, first.visibility, first.kind) == (second.reply_to, second.visibility, second.kind)
