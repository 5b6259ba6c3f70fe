"""Lays out an answer of `halo why` for a terminal."""

from halo.build.trace.why import Answer, Explained
from halo.cli.blame_text import hidden, place, written_by
from halo.files.visible import visible
from halo.records.artifacts import Slot

_MOST = 20  # lines, and other places, that are shown
_WIDTH = 100  # characters that are shown of a line


def as_text(answer: Answer, wanted: str) -> str:
    """Lay out an answer: a block for each line, or what there is instead."""
    if not answer.lines:
        return "\n".join(_instead(answer, wanted)) + "\n"
    blocks = [
        f'{answer.target} · line {line.line}   "{_short(line.text)}"\n' + "".join(_rows(line.origins))
        for line in answer.lines[:_MOST]
    ]
    if (more := len(answer.lines) - _MOST) > 0:
        blocks.append(f"{more:,} more lines match {visible(wanted)!r}; --format json shows all\n")
    return "\n".join(blocks)


def _rows(origins: tuple[Explained, ...]) -> list[str]:
    """Write the origins of a line, those from the same line of a layer together."""
    groups: dict[tuple[str, int], list[Explained]] = {}
    for origin in origins:
        groups.setdefault((origin.source, origin.line), []).append(origin)
    rows: list[tuple[str, str]] = []
    for group in groups.values():
        rows += _group(group, alone=len(groups) == 1)
    width = max(len(label) for label, _ in rows)
    return [f"  {label:{width}}  {text}\n" for label, text in rows]


def _group(group: list[Explained], *, alone: bool) -> list[tuple[str, str]]:
    first = group[0]
    rows = [("slot", f"{visible(o.text)}: {_filled(o.slot)}") for o in group if o.slot is not None]
    if first.blame.state == "rules":
        return [*rows, ("made by", first.blame.note)]
    derived = all(origin.how == "derived" for origin in group)
    scope = first.source.partition(":")[0]
    where = f"{place(first.source, first.line)}   ({scope}"
    where += f"; hides {hidden(first.hides)})" if first.hides else ")"
    texts = [origin.text for origin in group if origin.how != "slot" and origin.text.strip()]
    if not alone and texts:
        where += '   "{}"'.format(_short(" … ".join(text.strip() for text in texts)))
    return [*rows, ("made from" if derived else "from", where), ("by", written_by(first.blame))]


_BUILTIN_SLOTS = {
    "workspace_root": "the absolute path of the workspace",
    "working_dir": "the absolute path of the working directory",
    "now": "the time",
    "time_zone": "the time zone of the machine",
    "runtime": "the system, the machine and the versions",
}


def _filled(slot: Slot) -> str:
    """Say what fills a slot, and when."""
    what = {
        "builtin": _BUILTIN_SLOTS.get(slot.name, "by Halo"),
        "settings": f"the value of {slot.name} in the global settings",
        "environment": f"{visible(slot.template)} of the workspace's settings, from the environment",
    }.get(slot.origin, "a value that the session knows")
    return f"filled when a turn starts: {what}"


_REASONS = {
    "hidden": "hidden by {by}",
    "target": "in {by}",
    "few-shot": "an example message, sent beside the prompt",
    "form": "in another form: it became line {by}",
    "unused": "other lines of the file are in the prompt, this one is not (front matter, for one)",
    "unread": "in no prompt of this agent; docs/reference/layers.md says which files are read",
}


def _instead(answer: Answer, wanted: str) -> list[str]:
    """Say that nothing matches, what comes near, and where else it stands."""
    lines = [f'{answer.target}: no line matches "{visible(wanted)}"']
    lines += [f'  near  line {line.line}   "{_short(line.text)}"' for line in answer.near]
    for other in answer.elsewhere[:_MOST]:
        by = place(other.by) if other.why == "hidden" else visible(other.by)
        lines.append(f'  stands in  {place(other.source, other.line)}   "{_short(other.text)}"')
        lines.append("             " + _REASONS[other.why].format(by=by))
    if (more := len(answer.elsewhere) - _MOST) > 0:
        lines.append(f"  {more:,} more places; --format json shows all")
    lines += [f"  not looked at  {visible(what)}" for what in answer.unread]
    return lines


def _short(text: str) -> str:
    """Return a line that fits a terminal, cut visibly."""
    text = visible(text.strip())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
