"""What fills the window, in lines for people. Pure."""

from collections.abc import Iterator

from halo.files.visible import visible
from halo.sessions.long.window import PROMPT, Kind, Part, Window, largest, totals

_NAMES: dict[Kind, str] = {
    "segment": "prompt",
    "tool": "tool schemas",
    "few_shots": "few-shots",
    "user": "messages of the user",
    "assistant": "answers",
    "tool_calls": "calls of tools",
    "tool_results": "results of tools",
    "thinking": "thoughts",
    "images": "pictures",
    "skills": "skills",
    "summaries": "summaries and notes",
}
_BAR = 20  # characters of a full window


def window_lines(window: Window, *, detail: bool) -> list[str]:
    """Write a line for each kind of part, with `detail` for each part, and the sums."""
    size = max(1, window.window)
    by = "as the provider counted, and an estimate since" if window.counted else "an estimate"
    filled = f"{window.filled:,} of {window.window:,} tokens are filled ({window.filled / size:.0%}; {by})"
    lines = [
        f"{filled}, {window.free:,} are free",
        f"{_bar(window.filled / size)} {window.model}, artifact {window.artifact[:12]}",
        "",
    ]
    for kind, (tokens, count) in totals(window.parts).items():
        name = _NAMES[kind] + (f" ({count})" if kind in PROMPT and count > 1 else "")
        lines.append(_line(name, tokens, size, ""))
        if detail:
            lines += [_detail(part, size) for part in largest(window.parts, kind) if part.name]
    lines += [
        _line("together", window.used, size, ""),
        "",
        f"stays whatever happens: {window.pinned:,} tokens",
        f"can go now as old results of tools: {window.prunable:,} tokens",
        f"from {window.limit:,} tokens on the history is shortened; a reply may have {window.reply:,}",
    ]
    return lines


def _line(name: str, tokens: int, size: int, remark: str) -> str:
    return f"{name:<44} {tokens:>10,} {tokens / size:>7.1%}{remark}"


def _detail(part: Part, size: int) -> str:
    remarks = tuple(_remarks(part))
    name = f"  {visible(part.name)}"
    return _line(name, part.tokens, size, f"  {', '.join(remarks)}" if remarks else "")


def _remarks(part: Part) -> Iterator[str]:
    if part.kind not in PROMPT:
        if part.pinned:
            yield f"{part.pinned:,} stay"
        if part.prunable:
            yield f"{part.prunable:,} can go"
    elif part.source and part.source != part.name:
        yield visible(part.source)


def _bar(share: float) -> str:
    full = min(_BAR, round(share * _BAR))
    return f"[{'#' * full}{'.' * (_BAR - full)}]"
