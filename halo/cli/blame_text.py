"""Layers, their lines and who wrote them, as text for a terminal."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import click
from rich.cells import cell_len, set_cell_size

from halo.files.visible import visible

if TYPE_CHECKING:
    from halo.build.trace.blame import Line
    from halo.build.trace.blame_records import Authorship
    from halo.build.trace.origins import Origin, PromptLine
    from halo.records.artifacts import Artifact
    from halo.workspace.places import Places

_PLACE = 44  # columns
_AUTHOR = 14
_ID = 7  # digits of a commit id

_MARKS = {"verbatim": "", "derived": "made", "slot": "slot"}
_SHORT = {
    "changed": "not committed yet",
    "untracked": "not tracked by git",
    "outside": "not in git",
    "rules": "rules of composition",
    "unknown": "unknown",
}


def place(source: str, line: int = 0) -> str:
    """Write a tree path: of the workspace as relative to it, else with its root; `line` if there is one."""
    path = visible(source.removeprefix("workspace:"))
    return f"{path}:{line}" if line else path


def written_by(author: "Authorship") -> str:
    """Say who wrote a line, and when and why; or why that is not known."""
    commit = author.commit
    if commit is None:
        return visible(author.note)
    facts = [commit.id[:_ID], commit.date[:10] or "no date", commit.author, commit.summary]
    if commit.earlier:
        facts.append("(or earlier: the clone is shallow)")
    return "  ".join(fact for fact in facts if fact)


class _Row(NamedTuple):
    """A line of the table; `left` are its cells, aligned."""

    left: tuple[str, ...]
    number: int
    text: str


def blamed_prompt(places: "Places", artifact: "Artifact") -> str:
    """Lay out a whole prompt as `git blame` does: who, when, which layer's line, before each line."""
    from halo.build.trace.blame import blame_lines
    from halo.build.trace.origins import prompt_lines

    lines = prompt_lines(artifact.prompt, artifact.manifest)
    main = [main_origin(line) for line in lines]
    authors = blame_lines(places, ((origin.source, origin.line) for origin in main))
    rows = [_row(line, origin, authors) for line, origin in zip(lines, main, strict=True)]
    _remark(authors)
    widths = [max((cell_len(row.left[i]) for row in rows), default=0) for i in range(3)]
    digits = len(str(len(rows)))
    return "".join(
        "  ".join(
            [
                *(set_cell_size(cell, width) for cell, width in zip(row.left, widths, strict=True)),
                f"{row.number:>{digits}}  {row.text}",
            ]
        ).rstrip()
        + "\n"
        for row in rows
    )


def main_origin(line: "PromptLine") -> "Origin":
    """Return the origin that speaks for a line: the first that stands so in its layer, else the first."""
    return next((origin for origin in line.origins if origin.how == "verbatim"), line.origins[0])


def _row(line: "PromptLine", main: "Origin", authors: "dict[Line, Authorship]") -> _Row:
    more = len({(origin.source, origin.line) for origin in line.origins}) - 1
    author = authors[main.source, main.line]
    where = "" if author.state == "rules" else place(main.source, main.line)
    where = _cut(where, _PLACE) + (f" +{more}" if more else "")
    mark = "slot" if any(origin.how == "slot" for origin in line.origins) else _MARKS[main.how]
    return _Row((_who(author), where, mark), line.number, visible(line.text))


def _who(author: "Authorship") -> str:
    commit = author.commit
    if commit is None:
        return _SHORT.get(author.state) or author.note
    identity = "^" + commit.id[: _ID - 1] if commit.earlier else commit.id[:_ID]
    name = commit.author
    if cell_len(name) > _AUTHOR:
        name = set_cell_size(name, _AUTHOR - 1).rstrip() + "…"
    return f"{identity} {commit.date[:10]:10} {name}"


def _cut(path: str, width: int) -> str:
    """Cut a path in the middle: its folder and its line number say most."""
    if cell_len(path) <= width:
        return path
    tail = path[-(width * 2 // 3) :]
    while cell_len(tail) > width * 2 // 3:
        tail = tail[1:]
    return set_cell_size(path, width - 1 - cell_len(tail)).rstrip() + "…" + tail


def _remark(authors: "dict[Line, Authorship]") -> None:
    """Say on stderr what the table has no room for."""
    notes = {f"{place(s)}: {a.note}": None for (s, _), a in authors.items() if a.state == "unknown"}
    for note in notes:
        click.echo(f"warning: {visible(note)}", err=True)
    if any(author.commit is not None and author.commit.earlier for author in authors.values()):
        click.echo("^: the oldest commit of a shallow clone; the line may be older", err=True)


def hidden(sources: Iterable[str]) -> str:
    """Name what a layer takes the place of: `the global INSTRUCTIONS.md`."""
    return ", ".join("the {} {}".format(*visible(source).split(":", 1)) for source in sources)
