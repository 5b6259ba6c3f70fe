"""The stable part of every request: what a provider can cache."""

import msgspec

from halo.records.messages import Message
from halo.records.tools import ToolSpec


class Prefix(msgspec.Struct, frozen=True):
    """What does not change from turn to turn: system text, tools, few-shots.

    `system` is the whole filled system text and begins with `static_prefix`, which every turn of the same
    artifact shares. `fingerprint` is the artifact's: equal fingerprints, equal unfilled text, tools and
    few-shots.
    """

    system: str
    static_prefix: str
    tools: tuple[ToolSpec, ...] = ()
    few_shots: tuple[Message, ...] = ()
    fingerprint: str = ""
