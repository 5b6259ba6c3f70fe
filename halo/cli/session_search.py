"""`halo session search`: where something was said."""

from typing import TYPE_CHECKING

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import count, named, open_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halo.sessions.folder import SessionFolder
    from halo.sessions.keeping.listing import View
    from halo.sessions.keeping.searching import Match

_AROUND = 60  # characters on each side of a match in a long line


@click.command("search")
@workspace_option
@click.option("-s", "--session", "only", metavar="SESSION", multiple=True, help="Only in this one.")
@click.option("-a", "--agent", metavar="NAME", default="", help="Only in sessions with this agent.")
@click.option(
    "--role",
    type=click.Choice(["user", "assistant", "tool"]),
    multiple=True,
    help="Only what this one said; `tool`: calls and their results.",
)
@click.option("-i", "--ignore-case", is_flag=True, help="Take a and A for the same.")
@click.option("--regex", is_flag=True, help="PATTERN is a regular expression (of Python).")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="How many matches; it stops there. 0: all.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "ndjson"]),
    default="text",
    show_default=True,
    help="Lines for people, or a JSON object for each match.",
)
@click.argument("pattern")
def command(
    *,
    workspace: str | None,
    only: tuple[str, ...],
    agent: str,
    role: tuple[str, ...],
    ignore_case: bool,
    regex: bool,
    limit: int,
    form: str,
    pattern: str,
) -> int:
    """Find the lines with PATTERN in what was said, in all sessions, the newest first, archived ones too.

    Each match shows session, turn, who said it, and the line in the message. Exits with 1 when there is none.
    """
    from halo.errors import LogError
    from halo.sessions.keeping.searching import matches, query_of
    from halo.sessions.reading import Unread

    view = open_view(workspace)
    query = query_of(pattern, regex=regex, ignore_case=ignore_case, roles=frozenset(role))
    found = lost = 0
    for folder in _folders(view, only, agent):
        try:
            for match in matches(folder, query):
                if isinstance(match, Unread):
                    lost += 1
                    continue
                if found == limit > 0:
                    click.echo(f"there are more than {limit:,}; --limit 0 shows all", err=True)
                    return 0
                found += 1
                click.echo(_line(match) if form == "text" else _as_json(match))
        except LogError as error:
            click.echo(f"warning: {folder.id} cannot be searched: {error.message}", err=True)
    if lost:
        click.echo(
            f"warning: {count(lost, 'line')} could not be read; halo session repair tells more", err=True
        )
    return 0 if found else 1


def _folders(view: "View", only: tuple[str, ...], agent: str) -> "Iterator[SessionFolder]":
    from halo.sessions.find import session_ids
    from halo.sessions.folder import SessionFolder
    from halo.sessions.index.lookup import headers_with

    if only:
        yield from (named(view, session) for session in only)
    elif agent:
        yield from (SessionFolder(view.sessions, h.id) for h in headers_with(view.sessions, agent=agent))
    else:
        folders = (SessionFolder(view.sessions, session_id) for session_id in session_ids(view.sessions))
        yield from (folder for folder in folders if folder.exists())


def _line(match: "Match") -> str:
    from halo.files.visible import visible

    start, end = max(0, match.start - _AROUND), match.end + _AROUND
    text = match.text[start:end]
    cut = ("…" if start else "") + text + ("…" if end < len(match.text) else "")
    return visible(f"{match.session} turn {match.turn} {match.role}:{match.line}: {cut}")


def _as_json(match: "Match") -> str:
    import msgspec

    return msgspec.json.encode(match).decode()
