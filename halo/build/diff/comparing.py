"""Compares what a target compiles to in two states of a workspace. Pure."""

from typing import Any

import msgspec

from halo.build.collecting import Outcome
from halo.build.diff.hunks import MOST_BYTES, Edited, edit_texts, plain_hunks, segment_hunks, whole_hunks
from halo.build.diff.locating import Located, common_characters
from halo.compiler.assemble import Compiled
from halo.compiler.tokens import estimate
from halo.files.canonical import canonical_json, readable_json
from halo.records.artifacts import Manifest
from halo.records.differences import (
    CacheEffect,
    CacheLoss,
    Change,
    Difference,
    FieldChange,
    FirstChange,
    Hunk,
    SideName,
    ToolChange,
)
from halo.records.messages import Message, Text
from halo.records.targets import AgentTarget
from halo.records.tools import ToolSpec


def compare(old: Outcome | None, new: Outcome | None) -> Difference:
    """Compare the two outcomes of a target; None where it does not exist on that side, never on both."""
    present = new or old
    if present is None:
        raise AssertionError("a target that exists on neither side")
    target = present.target
    before, after = _compiled(old), _compiled(new)
    if before is after and before is not None:
        return Difference(target, target.label, "unchanged")
    difference = Difference(target, target.label, "unchanged", old_error=_error(old), new_error=_error(new))
    if before is not None and after is not None:
        return _both(difference, before, after)
    if old is None or new is None:
        return _one(difference, before or after, "old" if new is None else "new")
    # Where a side does not compile, its error is all there is to say.
    same = difference.old_error == difference.new_error
    return difference if same else msgspec.structs.replace(difference, change="changed")


def _compiled(outcome: Outcome | None) -> Compiled | None:
    return outcome.compiled if outcome is not None else None


def _error(outcome: Outcome | None) -> str:
    return str(outcome.error) if outcome is not None and outcome.error is not None else ""


def _one(difference: Difference, compiled: Compiled | None, side: SideName) -> Difference:
    """Describe a target that exists on one side only."""
    change: Change = "added" if side == "new" else "removed"
    difference = msgspec.structs.replace(difference, change=change)
    if compiled is None:
        return difference
    located = Located(compiled)
    too_large = len(located.data) > MOST_BYTES
    tokens = estimate(located.data) + _tokens(len(_shots(compiled.manifest.few_shots).encode()))
    old, new = (tokens, 0) if side == "old" else (0, tokens)
    return msgspec.structs.replace(
        difference,
        old_tokens=old,
        new_tokens=new,
        added_tokens=new,
        removed_tokens=old,
        too_large=too_large,
        hunks=() if too_large else whole_hunks(located, "+" if side == "new" else "-"),
    )


def _both(difference: Difference, before: Compiled, after: Compiled) -> Difference:
    old, new = Located(before), Located(after)
    edited = edit_texts(before.prompt, after.prompt)
    tools, tool_hunks = _tools(before.manifest.tools, after.manifest.tools)
    shots = edit_texts(_shots(before.manifest.few_shots), _shots(after.manifest.few_shots))
    hunks = () if edited.too_large else segment_hunks(edited, old, new)
    fields = _fields(before.manifest, after.manifest)
    same = before.prompt == after.prompt and before.manifest.few_shots == after.manifest.few_shots
    if same and not fields and before.manifest.tools == after.manifest.tools:
        return difference
    return msgspec.structs.replace(
        difference,
        change="changed",
        old_tokens=_tokens(len(old.data), shots.old.size()),
        new_tokens=_tokens(len(new.data), shots.new.size()),
        added_tokens=_tokens(edited.added_bytes, shots.added_bytes),
        removed_tokens=_tokens(edited.removed_bytes, shots.removed_bytes),
        first_change=_first_change(edited, old, new),
        cache=cache_effect(old, new) if isinstance(difference.target, AgentTarget) else None,
        fields=fields,
        tools=tools,
        hunks=(*hunks, *tool_hunks, *plain_hunks("few-shots", "", shots)),
        too_large=edited.too_large or shots.too_large,
    )


def _tokens(*sizes: int) -> int:
    """Estimate the tokens of so many bytes; the built-in estimate looks at nothing else."""
    return sum(estimate(b" " * size) for size in sizes)


def _first_change(edited: Edited, old: Located, new: Located) -> FirstChange | None:
    """Find the first byte that differs; on the old side where lines were only taken away there."""
    if not edited.edits:
        return None
    first = edited.edits[0]
    byte = common_characters(old.data, new.data)
    gone = first.new_end == first.new_start
    side: SideName = "old" if gone else "new"
    located = old if gone else new
    place = located.place(byte)
    return FirstChange(
        side,
        place.segment.id,
        place.number,
        len(located.compiled.manifest.segments),
        place.source,
        place.line,
        located.data.count(b"\n", 0, byte) + 1,
        byte,
    )


def cache_effect(old: Located, new: Located) -> CacheEffect:
    """Work out what of the old static prefix can still be read from a provider's cache."""
    before, after = old.compiled.manifest, new.compiled.manifest
    a, b = (x.data[: x.compiled.manifest.static_prefix.bytes] for x in (old, new))
    loss: CacheLoss = ""
    kept = 0
    if _answers(before) != _answers(after):
        loss = "model"
    elif _wire_tools(before) != _wire_tools(after):
        loss = "tools"
    else:
        kept = common_characters(a, b)
        loss = "text" if kept < len(a) else ""
    kept_tokens = estimate(a[:kept])
    return CacheEffect(
        old_tokens=before.static_prefix.tokens,
        new_tokens=after.static_prefix.tokens,
        kept_tokens=kept_tokens,
        kept_bytes=kept,
        again_tokens=after.static_prefix.tokens - kept_tokens,
        loss=loss,
    )


def _answers(manifest: Manifest) -> tuple[str, ...]:
    """Return what decides which cache is asked: sampling plays no part in it."""
    if manifest.runtime is None:
        return ()
    binding = manifest.runtime.binding
    return (binding.provider, binding.model, binding.endpoint)


def _wire_tools(manifest: Manifest) -> bytes:
    """Return what stands before the text in a request: the schemas, in the way in which they are sent."""
    mode = manifest.runtime.tool_mode if manifest.runtime is not None else ""
    return canonical_json([mode, [_told(tool) for tool in manifest.tools]]) if manifest.tools else b""


def _told(tool: ToolSpec) -> dict[str, Any]:
    """Return what a model is told of a tool."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _tools(
    old: tuple[ToolSpec, ...], new: tuple[ToolSpec, ...]
) -> tuple[tuple[ToolChange, ...], tuple[Hunk, ...]]:
    """Compare the tools by name."""
    before, after = {t.name: t for t in old}, {t.name: t for t in new}
    changes: list[ToolChange] = []
    hunks: list[Hunk] = []
    for name in [*after, *(name for name in before if name not in after)]:
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        removed, added = (estimate(canonical_json(_told(t))) if t is not None else 0 for t in (a, b))
        change: Change = "added" if a is None else "removed" if b is None else "changed"
        changes.append(ToolChange(name, change, added, removed))
        texts = (readable_json(tool).decode() if tool is not None else "" for tool in (a, b))
        hunks += plain_hunks("tool", name, edit_texts(*texts))
    return tuple(changes), tuple(hunks)


def _shots(messages: tuple[Message, ...]) -> str:
    """Write few-shots for reading: who says what, blocks that are no text as JSON."""
    parts = []
    for message in messages:
        parts.append(f"[{message.role}]\n")
        for block in message.content:
            text = block.text if isinstance(block, Text) else readable_json(block).decode()
            parts.append(text.rstrip("\n") + "\n")
    return "".join(parts)


def _fields(old: Manifest, new: Manifest) -> tuple[FieldChange, ...]:
    """Compare what stands neither in the text nor in the tools."""
    before, after = _facts(old), _facts(new)
    orders = [", ".join(tool.name for tool in manifest.tools) for manifest in (old, new)]
    if {tool.name for tool in old.tools} == {tool.name for tool in new.tools}:
        before["order of tools"], after["order of tools"] = orders
    names = [*after, *(name for name in before if name not in after)]
    return tuple(
        FieldChange(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )


def _facts(manifest: Manifest) -> dict[str, str]:
    """List values by name.

    An agent's text says itself what its skills and team are for; who listens to a skill's own description is
    every agent that lists it, so there it counts.
    """
    found: dict[str, str] = {}
    if manifest.runtime is not None:
        _flatten("", msgspec.to_builtins(manifest.runtime), found)
    if isinstance(manifest.target, AgentTarget):
        found |= {f"skills.{skill.id}": skill.scope for skill in manifest.skills}
        found |= {f"team.{member.id}": member.name for member in manifest.team}
        found |= {f"commands.{c.id}": c.refused or "invokes the skill" for c in manifest.commands}
    else:
        for skill in manifest.skills:
            _flatten("", msgspec.to_builtins(skill), found)
    return found


def _flatten(prefix: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, below in value.items():
            _flatten(f"{prefix}.{key}" if prefix else key, below, found)
    elif value is not None:
        found[prefix] = value if isinstance(value, str) else canonical_json(value).decode()
