"""Pauses between the parts of an answer, as a person makes them. Pure: chance is a parameter."""

from collections.abc import Callable
from typing import Literal

import msgspec

NATURAL_MS = (800, 2500)

# Returns a whole number from the first to the second, both possible.
Chance = Callable[[int, int], int]


class Pace(msgspec.Struct, frozen=True):
    """How long the pauses are, in milliseconds; `off` is none, `natural` 800 to 2,500."""

    mode: Literal["off", "natural", "custom"] = "off"
    min_ms: int = NATURAL_MS[0]
    max_ms: int = NATURAL_MS[1]


def pause(pace: Pace, kind: str, blocks: int, chance: Chance) -> float:
    """Return the seconds to wait before a message; `blocks` parts of the answer went before it.

    Only before parts of an answer, and not before the first.
    """
    if pace.mode == "off" or kind != "block" or blocks == 0:
        return 0.0
    low, high = NATURAL_MS if pace.mode == "natural" else (pace.min_ms, pace.max_ms)
    return (low if high <= low else chance(low, high)) / 1000
