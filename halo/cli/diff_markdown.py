"""`halo diff` as the comment of a pull request: short enough for GitHub, and inert.

Words of layers stand in code spans and fences only, where neither Markdown nor HTML nor mentions work.
"""

import html
import re
import shlex

from halo.cli.diff_patch import errors, kept, others, patch, plus_minus, position, state
from halo.records.differences import Comparison, Difference
from halo.records.targets import AgentTarget

_MOST = 64_000  # UTF-16 units; GitHub takes 65,536
_MOST_TABLE = 24_000  # of these for the table
_NAMED = 20  # targets that a note names


def markdown(comparison: Comparison) -> str:
    """Write a table of the affected targets, and the changed lines of each below it."""
    head = f"### Prompts: {_code(state(comparison.old))} → {_code(state(comparison.new))}\n\n"
    unchanged = len(comparison.unchanged)
    if not comparison.affected:
        return head + f"No prompt changed ({unchanged:,} compared).\n"
    labels = {difference.target.name: difference.label for difference in comparison.affected}
    table = _table(comparison, labels)
    foot = f"\n{unchanged:,} unchanged. Tokens are estimates.\n"
    room = _MOST - _size(head + table + foot) - 2_000  # the rest for the note
    blocks, cut = _blocks(comparison, room)
    return head + table + blocks + _note(comparison, cut) + foot


def _size(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _table(comparison: Comparison, labels: dict[str, str]) -> str:
    rows = ["| target | tokens | first change | cached prefix kept |", "|---|--:|---|--:|"]
    size = 0
    for number, difference in enumerate(comparison.affected):
        row = _row(difference, labels)
        size += _size(row) + 1
        if size > _MOST_TABLE:
            rows.append(f"| … {len(comparison.affected) - number:,} more | | | |")
            break
        rows.append(row)
    return "\n".join(rows) + "\n"


def _row(difference: Difference, labels: dict[str, str]) -> str:
    cache, first = difference.cache, difference.first_change
    if difference.failed:
        what = "does not compile" if difference.new_error else "did not compile"
    elif difference.change in ("added", "removed"):
        what = difference.change
    elif difference.same_as:
        what = ""
    elif first is not None:
        what = f"{_cell(position(first))}"
    else:
        what = _cell(others(difference))
    if difference.same_as:
        what = f"{what} as {_cell(labels[difference.same_as])}".strip()
    left = f"{cache.kept_tokens:,} of {cache.old_tokens:,}" if cache is not None else ""
    return f"| {_cell(difference.label)} | {plus_minus(difference)} | {what} | {left} |"


def _blocks(comparison: Comparison, room: int) -> tuple[str, list[Difference]]:
    """Write the details of each target into its share of the room; return what had to be cut as well.

    What a target leaves over is for those behind it.
    """
    waiting = [d for d in comparison.affected if not d.same_as]
    blocks: list[str] = []
    cut: list[Difference] = []
    for number, difference in enumerate(waiting):
        share = room // (len(waiting) - number)
        lines = _lines(comparison, difference)
        block = _block(difference, lines)
        if _size(block) > share:
            cut.append(difference)
            block = _shortened(difference, lines, share)
        blocks.append(block)
        room -= _size(block)
    return "".join(blocks), cut


def _lines(comparison: Comparison, difference: Difference) -> list[str]:
    lines = [f"# {line}" for line in errors(comparison, difference)]
    if difference.cache is not None:
        lines.append(f"# {kept(difference.cache)}")
    if difference.too_large:
        lines.append("# too much changed to be shown line by line")
    return lines + patch(difference)


def _block(difference: Difference, lines: list[str]) -> str:
    fence = _fence("\n".join(lines))
    summary = f"<code>{html.escape(difference.label)}</code>"
    body = "\n".join(lines)
    return (
        f"\n<details><summary>{summary}</summary>\n\n{fence}diff\n{body}\n{fence}\n\n</details>\n"
        if lines
        else ""
    )


def _shortened(difference: Difference, lines: list[str], share: int) -> str:
    """Keep as many whole lines as fit, with a last one that says how many are missing; or nothing."""
    kept_lines = len(lines)
    while kept_lines:
        kept_lines //= 2
        missing = f"# … {len(lines) - kept_lines:,} more lines"
        block = _block(difference, [*lines[:kept_lines], missing])
        if kept_lines and _size(block) <= share:
            return block
    return ""


def _note(comparison: Comparison, cut: list[Difference]) -> str:
    if not cut:
        return ""
    names = ", ".join(_code(difference.label) for difference in cut[:_NAMED])
    more = f" and {len(cut) - _NAMED:,} more" if len(cut) > _NAMED else ""
    command = " ".join(["halo diff", *_arguments(comparison, cut)])
    return f"\nCut for length: {names}{more}. The whole of it: {_code(command)}\n"


def _arguments(comparison: Comparison, cut: list[Difference]) -> list[str]:
    sides = (comparison.old, comparison.new)
    words = [shlex.quote(side.name) for side in sides if side.commit]
    agents = {d.target.agent if isinstance(d.target, AgentTarget) else "" for d in cut}
    if len(agents) == 1 and (agent := agents.pop()):
        words += ["-a", agent]
    return [*words, "--global"] if comparison.with_global else words


def _fence(text: str) -> str:
    return "`" * max(3, 1 + _longest_run(text))


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """Put words into a code span, whatever they hold."""
    fence = "`" * (1 + _longest_run(text))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cell(text: str) -> str:
    """Put words into a cell of a table; there a bar is escaped even in code."""
    return _code(text).replace("|", "\\|")
