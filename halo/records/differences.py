"""What two states of a workspace differ in: the values behind `halo diff` (docs/reference/formats.md)."""

from typing import Literal

import msgspec

from halo.records.targets import Target

FORMAT = 1

SideName = Literal["old", "new"]
Change = Literal["added", "removed", "changed", "unchanged"]
HunkKind = Literal["segment", "tool", "few-shots"]
CacheLoss = Literal["text", "tools", "model", ""]


class FirstChange(msgspec.Struct, frozen=True):
    """The first byte in which two prompts differ, and where it comes from.

    `side` says in which of the two it is looked up: the old one where text was only taken away. Segment
    `number` of `segments`; `byte` counts from 0, `prompt_line` and `line` (of `source`) from 1.
    """

    side: SideName
    segment: str
    number: int
    segments: int
    source: str
    line: int
    prompt_line: int
    byte: int


class CacheEffect(msgspec.Struct, frozen=True):
    """What is left of the old static prefix in a provider's cache; tokens are the built-in estimate.

    `old_tokens` and `new_tokens` are those of the two static prefixes, `kept_bytes` and `kept_tokens` what
    they begin with in common; `again_tokens` is the rest of the new one, which a warm session pays for
    again. `loss` says what breaks the cache first: the text, the tool schemas (which stand before the text
    in a request), another model (which has a cache of its own); empty when all of the old prefix is kept.
    """

    old_tokens: int
    new_tokens: int
    kept_tokens: int
    kept_bytes: int
    again_tokens: int
    loss: CacheLoss


class Hunk(msgspec.Struct, frozen=True):
    """Lines that changed, with up to three unchanged ones around them.

    `kind` and `name`: the segment, the tool or the few-shots that it is about. `source` and `line` say where
    the first changed line of a segment comes from: in the new state, or in the old one where lines were only
    taken away. Line ranges count from 1, as in a unified diff. Each of `lines` begins with " ", "-" or "+".
    """

    kind: HunkKind
    name: str
    source: str
    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]

    @property
    def changed(self) -> tuple[str, ...]:
        """The lines without those that are only context."""
        return tuple(line for line in self.lines if line[0] != " ")


class FieldChange(msgspec.Struct, frozen=True):
    """A value beside the text, such as `binding.model`; None where there is none."""

    field: str
    old: str | None
    new: str | None


class ToolChange(msgspec.Struct, frozen=True):
    """A tool that was added, removed, or has another description or schema; tokens are estimates."""

    name: str
    change: Change
    added_tokens: int
    removed_tokens: int


class Difference(msgspec.Struct, frozen=True):
    """What one target differs in.

    Tokens are the built-in estimate: of the whole text on either side, and of the lines that were added and
    removed. `old_error` and `new_error` say why a side does not compile. `cache` is there for agents that
    compile on both sides. `too_large`: so much text changed that no lines are given. `same_as` is the name of
    an earlier target with the very same changes.
    """

    target: Target
    label: str
    change: Change
    old_tokens: int = 0
    new_tokens: int = 0
    added_tokens: int = 0
    removed_tokens: int = 0
    first_change: FirstChange | None = None
    cache: CacheEffect | None = None
    fields: tuple[FieldChange, ...] = ()
    tools: tuple[ToolChange, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    too_large: bool = False
    old_error: str = ""
    new_error: str = ""
    same_as: str = ""

    @property
    def failed(self) -> bool:
        """Whether a side does not compile, so that there was nothing to compare."""
        return bool(self.old_error or self.new_error)

    @property
    def affected(self) -> bool:
        """Whether there is anything to show."""
        return self.change != "unchanged" or self.failed


class Side(msgspec.Struct, frozen=True):
    """A state of a workspace: a revision and the id of its commit, or the work tree, which has none."""

    name: str
    commit: str = ""


class Comparison(msgspec.Struct, frozen=True):
    """`halo diff --format json`: every affected target, and the names of the others."""

    format: int
    compiler: str
    old: Side
    new: Side
    with_global: bool
    affected: tuple[Difference, ...]
    unchanged: tuple[Target, ...]
