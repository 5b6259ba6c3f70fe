"""The stable part of every request: what a provider can cache, and what a change of it costs."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json
from halo.models.byte_differences import first_difference
from halo.records.messages import Message
from halo.records.tools import ToolSpec


class Prefix(msgspec.Struct, frozen=True):
    """What does not change from turn to turn: system text, tools, few-shots.

    `system` is the whole filled system text and begins with `static_prefix`, which every turn of the same
    artifact shares. `fingerprint` is the artifact's: equal fingerprints, equal unfilled text, tools and
    few-shots. `unfilled` is that text, with its slots as they are written; empty where there are none.
    """

    system: str
    static_prefix: str
    tools: tuple[ToolSpec, ...] = ()
    few_shots: tuple[Message, ...] = ()
    fingerprint: str = ""
    unfilled: str = ""


class PrefixChange(msgspec.Struct, frozen=True):
    """The first difference of two prefixes, in the order in which providers read them: `part`.

    Of tools, their names; of the system text, the first `byte` that differs (from 0) and its `line` (from 1);
    of few-shots, the number of the first message (from 1). `before` and `after` are quoted snippets. `lost`:
    tokens of the old prefix behind the difference, in the built-in estimate: no longer cached, nor is
    whatever history follows.
    """

    part: Literal["tools", "system", "few_shots"]
    lost: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    byte: int = 0
    line: int = 0
    message: int = 0
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if self.part == "tools":
            parts = [
                f"{what} {', '.join(names)}"
                for what, names in (
                    ("added", self.added),
                    ("removed", self.removed),
                    ("changed", self.changed),
                )
                if names
            ]
            what = f"tools: {'; '.join(parts) or 'in another order'}"
        elif self.part == "system":
            what = f"system text, line {self.line}, byte {self.byte:,}: {self.before} became {self.after}"
        else:
            what = f"few-shots, message {self.message}: {self.before} became {self.after}"
        return f"{what} (about {self.lost:,} cached tokens lost)"


def compare(before: Prefix, after: Prefix) -> PrefixChange | None:
    """Return what changed between two prefixes; None when a cache of the first still serves the second."""
    if before.tools != after.tools:
        return _tools(before, after)
    if before.system != after.system:
        old, new = before.system.encode(), after.system.encode()
        found = first_difference(old, new)
        return PrefixChange(
            "system",
            estimate(old[found.at :]) + _tokens(before.few_shots),
            byte=found.at,
            line=old[: found.at].count(b"\n") + 1,
            before=found.before,
            after=found.after,
        )
    return _few_shots(before.few_shots, after.few_shots)


def _tools(before: Prefix, after: Prefix) -> PrefixChange:
    old, new = {t.name: t for t in before.tools}, {t.name: t for t in after.tools}
    lost = _tokens(before.tools) + estimate(before.system.encode()) + _tokens(before.few_shots)
    return PrefixChange(
        "tools",
        lost,
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(name for name in new if name in old and new[name] != old[name]),
    )


def _few_shots(before: Sequence[Message], after: Sequence[Message]) -> PrefixChange | None:
    if before == after:
        return None
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    old = canonical_json(before[same]) if same < len(before) else b""
    new = canonical_json(after[same]) if same < len(after) else b""
    found = first_difference(old, new)
    return PrefixChange(
        "few_shots",
        _tokens(before[same:]),
        message=same + 1,
        before=found.before,
        after=found.after,
    )


def _tokens(values: Sequence[Message] | Sequence[ToolSpec]) -> int:
    return sum(estimate(canonical_json(value)) for value in values)
