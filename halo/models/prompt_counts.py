"""What a compiled prompt costs before the first message: segments, few-shots and tool schemas, in tokens."""

from typing import Protocol

import msgspec

from halo.compiler.tokens import estimate, spoken
from halo.files.canonical import canonical_json
from halo.models.count_cache import CountCache
from halo.models.token_counts import ESTIMATE, count
from halo.records.artifacts import Manifest
from halo.records.tools import ToolSpec


class PromptCounts(msgspec.Struct, frozen=True):
    """Tokens of all that goes out with every request; `tokenizer`, `exact` and `note` as in `Counts`.

    `segments` and `few_shots` are in the manifest's order; one number stands for all segments where nobody
    asked for each. Slots count as they are written.
    """

    tokenizer: str
    exact: bool
    segments: tuple[int, ...]
    static_prefix: int
    few_shots: tuple[int, ...]
    tools: int
    note: str = ""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.segments) + sum(self.few_shots) + self.tools

    @property
    def label(self) -> str:
        """The total as words, such as `1,204 tokens (o200k_base)` or `about 1,311 tokens (estimate)`."""
        return f"{'' if self.exact else 'about '}{self.total:,} tokens ({self.tokenizer})"


class Counter(Protocol):
    """Counts a prompt; without `parts` all segments are one number, which is quicker to find."""

    def __call__(self, prompt: str, manifest: Manifest, *, parts: bool) -> PromptCounts:
        """Count."""


def estimate_prompt(prompt: str, manifest: Manifest, *, parts: bool = True, note: str = "") -> PromptCounts:
    """Take the estimates of the manifest, with one of the tool schemas."""
    del prompt, parts
    return PromptCounts(
        ESTIMATE,
        exact=False,
        segments=tuple(s.tokens for s in manifest.segments),
        static_prefix=manifest.static_prefix.tokens,
        few_shots=tuple(s.tokens for s in manifest.few_shot_sources),
        tools=estimate(tool_text(manifest).encode()),
        note=note,
    )


def count_prompt(prompt: str, manifest: Manifest, cache: CountCache, *, parts: bool = True) -> PromptCounts:
    """Count by the tokenizer of the prompt's model, else take the estimates.

    A tokenizer may join what stands on both sides of a seam. A segment's number is therefore what the text
    up to its end has more than the text up to its start, and the numbers add up to those of the whole text.
    """
    runtime = manifest.runtime
    if runtime is None:
        return estimate_prompt(prompt, manifest)
    data = prompt.encode()
    ends = [s.end for s in manifest.segments] if parts else [len(data)]
    heads = [data[:end].decode() for end in (*ends, manifest.static_prefix.bytes)]
    shots = [spoken(message) for message in manifest.few_shots]
    counts = count([*heads, *shots, tool_text(manifest)], runtime.binding, cache)
    if not counts.exact:
        return estimate_prompt(prompt, manifest, note=counts.note)
    *numbers, tools = counts.numbers
    upto = numbers[: len(ends)]
    return PromptCounts(
        counts.tokenizer,
        exact=True,
        segments=tuple(b - a for a, b in zip([0, *upto], upto, strict=False)),
        static_prefix=numbers[len(ends)],
        few_shots=tuple(numbers[len(heads) :]),
        tools=tools,
    )


def tool_text(manifest: Manifest) -> str:
    """Return what is sent about the tools, as canonical JSON; nothing without tools.

    With `tool_mode: schema` they are described in the prompt itself, and counted there.
    """
    runtime = manifest.runtime
    if not manifest.tools or (runtime is not None and runtime.tool_mode == "schema"):
        return ""
    return canonical_json([_told(tool) for tool in manifest.tools]).decode()


def _told(tool: ToolSpec) -> dict[str, object]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
