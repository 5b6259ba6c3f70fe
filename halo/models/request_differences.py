"""Where two recorded requests differ first: in the order in which a provider reads them. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from halo.files.canonical import canonical_json
from halo.models.byte_differences import first_difference
from halo.models.recordings import Asked
from halo.models.tool_differences import tool_difference
from halo.records.artifacts import Segment
from halo.records.targets import Access

_ALLOW = "allow this workspace what its tools need (halo trust), or record it again with the access of here"


class Difference(msgspec.Struct, frozen=True):
    """The first difference. `near` is the larger, the later it comes. `hint` says what may help."""

    near: tuple[int, int, int]
    told: str
    hint: str = ""

    def __str__(self) -> str:
        return self.told


def difference(
    recorded: Asked, now: Asked, segments: Sequence[Segment] = (), access: Access = "full"
) -> Difference | None:
    """Return the first difference; None when there is none.

    `segments` are those of today's prompt, `access` is the one that it is for.
    """
    for rank, (name, old, new) in enumerate(_parts(recorded, now)):
        if old == new:
            continue
        if name == "tool" and (tools := tool_difference(old, new, access)) is not None:
            near = (rank, _agreeing(old, new), 0)
            return Difference(near, f"tools: {tools.told}", _ALLOW if tools.refused else "")
        if isinstance(old, list) and isinstance(new, list):
            return _in_list(rank, name, old, new)
        found = first_difference(_bytes(old), _bytes(new))
        where = f"{name}, {_segment(found.at, segments)}byte {found.at:,}" if name == "system text" else name
        return _between((rank, 0, found.at), where, found.before, found.after)
    return None


def _between(near: tuple[int, int, int], where: str, recorded: str, now: str) -> Difference:
    return Difference(near, f"{where}: recorded {recorded}, now {now}")


def _parts(recorded: Asked, now: Asked) -> list[tuple[str, Any, Any]]:
    return [
        ("provider", recorded.provider, now.provider),
        ("model", recorded.model, now.model),
        ("tool", recorded.tools, now.tools),
        ("system text", "".join(recorded.system), "".join(now.system)),
        ("few-shot", recorded.few_shots, now.few_shots),
        ("message", recorded.messages, now.messages),
        ("options", recorded.options, now.options),
        ("schema of the reply", recorded.response_schema, now.response_schema),
        ("tool choice", recorded.tool_choice, now.tool_choice),
    ]


def _in_list(rank: int, name: str, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Difference:
    index = _agreeing(old, new)
    if index < min(len(old), len(new)):
        before, after = old[index], new[index]
        found = first_difference(_bytes(before), _bytes(after))
        where = f"{name} {index + 1}{_title(after)}, byte {found.at:,} of its JSON"
        return _between((rank, index, found.at), where, found.before, found.after)
    longer = new if len(new) > len(old) else old
    where = f"{name} {index + 1}{_title(longer[index])}"
    there = first_difference(_bytes(longer[index]), b"").before
    sides = ("none", there) if longer is new else (there, "none")
    return _between((rank, index, 0), where, *sides)


def _agreeing(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> int:
    """Return how many items at the beginning of both are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((i for i, (before, after) in pairs if before != after), min(len(old), len(new)))


def _title(item: dict[str, Any]) -> str:
    title = item.get("name") or item.get("role")
    return f" ({title})" if title else ""


def _bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else canonical_json(value)


def _segment(at: int, segments: Sequence[Segment]) -> str:
    found = next((s for s in segments if s.start <= at < s.end), segments[-1] if segments else None)
    return f"segment {found.id} ({found.source}), " if found is not None else ""
