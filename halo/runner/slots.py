"""Fills the slots of an artifact in memory."""

from collections.abc import Mapping
from typing import NamedTuple

from halo.records.artifacts import Artifact


class Filled(NamedTuple):
    """The system text of a turn; `static_prefix` is what it shares with every other turn of the artifact.

    `unfilled` names the slots that had no value: they stay as they are written.
    """

    text: str
    static_prefix: str
    unfilled: tuple[str, ...]


def fill(artifact: Artifact, values: Mapping[str, str]) -> Filled:
    """Put `values` (by slot name) into the slots. Only the manifest's byte ranges are touched."""
    data = artifact.prompt.encode()
    parts: list[bytes] = []
    unfilled: list[str] = []
    position = 0
    for slot in artifact.manifest.slots:
        parts.append(data[position : slot.start])
        if slot.name in values:
            parts.append(values[slot.name].encode())
        else:
            parts.append(data[slot.start : slot.end])
            unfilled.append(slot.name)
        position = slot.end
    parts.append(data[position:])
    prefix = data[: artifact.manifest.static_prefix.bytes].decode()
    return Filled(b"".join(parts).decode(), prefix, tuple(dict.fromkeys(unfilled)))
