"""What the texts of `halo diff` share: the lines of a patch, and the words for what they mean."""

from halo.files.visible import visible
from halo.records.differences import CacheEffect, Comparison, Difference, FirstChange, Hunk, Side, ToolChange


def patch(difference: Difference) -> list[str]:
    """Write out a difference as lines that begin with `@@`, `-`, `+` or a space."""
    lines: list[str] = []
    for field in difference.fields:
        lines.append(f"@@ {visible(field.field)} @@")
        for mark, value in (("-", field.old), ("+", field.new)):
            lines += [mark + visible(line) for line in value.split("\n")] if value is not None else []
    for hunk in difference.hunks:
        lines.append(f"@@ {_title(hunk, difference)} @@")
        lines += [visible(line) for line in hunk.lines]
    return lines


def _title(hunk: Hunk, difference: Difference) -> str:
    if hunk.kind == "segment":
        return f"segment {visible(hunk.name)} · {place(hunk.source, hunk.line)}"
    if hunk.kind == "few-shots":
        return "few-shots"
    tool = next(tool for tool in difference.tools if tool.name == hunk.name)
    return f"tool {visible(tool.name)} {tool.change}: ≈ {plus_minus(tool)} tokens"


def place(source: str, line: int) -> str:
    """Name a line of a source; one of the workspace by its path there."""
    return f"{visible(source.removeprefix('workspace:'))}:{line}"


def state(side: Side) -> str:
    """Name a state, with the beginning of its commit where the name is not that already."""
    name = visible(side.name)
    short = side.commit[:7]
    return name if not short or side.commit.startswith(side.name) else f"{name} ({short})"


def position(first: FirstChange) -> str:
    """Say where the first change is."""
    where = f"segment {first.number} of {first.segments}, {place(first.source, first.line)}"
    return f"{where} (removed)" if first.side == "old" else where


def plus_minus(change: Difference | ToolChange) -> str:
    """Say how many tokens came and went, by the built-in estimate."""
    return f"+{change.added_tokens:,} \N{MINUS SIGN}{change.removed_tokens:,}"


_LOSSES = {
    "tools": ": tool schemas changed, and they stand before the text",
    "model": ": another model has a cache of its own",
}


def kept(cache: CacheEffect) -> str:
    """Say what is left of the old prefix in a provider's cache, and what that costs."""
    said = f"cached prefix kept {cache.kept_tokens:,} of {cache.old_tokens:,} tokens"
    said += _LOSSES.get(cache.loss, "")
    return said + f"; a warm session pays for {cache.again_tokens:,} again"


def others(difference: Difference) -> str:
    """Name what changed beside the text; empty for nothing."""
    names = [field.field for field in difference.fields]
    names += [f"tool {tool.name} {tool.change}" for tool in difference.tools]
    names += ["few-shots"] if any(hunk.kind == "few-shots" for hunk in difference.hunks) else []
    return visible(", ".join(names))


def errors(comparison: Comparison, difference: Difference) -> list[str]:
    """Say why a side does not compile; several lines an error."""
    found = []
    for side, error in ((comparison.old, difference.old_error), (comparison.new, difference.new_error)):
        if error:
            first, *rest = error.split("\n")
            found.append(f"does not compile in {state(side)}: {visible(first)}")
            found += [visible(line) for line in rest]
    return found
