"""`halo session list`: the conversations of a workspace."""

from typing import TYPE_CHECKING, Any

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import age, as_json, columns, open_view, remarks_of, state_of

if TYPE_CHECKING:
    from halo.sessions.keeping.families import Branch
    from halo.sessions.keeping.listing import Entry, View

_KINDS = ["main", "group", "cron", "hook", "node", "other"]


@click.command("list")
@workspace_option
@click.option("-a", "--agent", metavar="NAME", default="", help="Only those with this agent.")
@click.option("--kind", type=click.Choice(_KINDS), multiple=True, help="Only of this kind; may be repeated.")
@click.option(
    "--active", type=click.FloatRange(min=0), metavar="MINUTES", help="Only those that changed since then."
)
@click.option("--key", metavar="KEY", default="", help="Only those that this session key has, or had.")
@click.option("--archived", is_flag=True, help="The archived ones, too.")
@click.option("--tree", is_flag=True, help="Sessions below those that started them.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="How many; those that changed last. 0: all.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "ndjson"]),
    default="text",
    show_default=True,
    help="Lines for people, one JSON object, or one for each session.",
)
def command(
    *,
    workspace: str | None,
    agent: str,
    kind: tuple[str, ...],
    active: float | None,
    key: str,
    archived: bool,
    tree: bool,
    limit: int,
    form: str,
) -> None:
    """List sessions, those that changed last first. Archived ones are left out unless asked for.

    A session that an agent started is archived by itself, an hour after its report
    (general.session.delegation.archive_minutes).
    """
    from datetime import timedelta

    from halo.sessions.keeping.families import Branch, as_tree
    from halo.sessions.keeping.listing import Wanted, entry_of, list_sessions
    from halo.sessions.routing.grammar import normalised

    view = open_view(workspace)
    since = view.now - timedelta(minutes=active) if active is not None else None
    spelt = normalised(key, agent=agent or "default") if key else ""
    found = list_sessions(view, Wanted(agent, frozenset(kind), since, spelt, archived), limit)
    branches = as_tree(found.headers) if tree else [Branch(0, header) for header in found.headers]
    entries = [(branch, entry_of(view, branch.header)) for branch in branches]
    for problem in found.unreadable:
        click.echo(f"warning: a session cannot be read: {problem}", err=True)
    if form == "json":
        rows = [_document(branch, entry, tree=tree) for branch, entry in entries]
        click.echo(
            as_json(
                {
                    "format": 1,
                    "sessions": rows,
                    "count": len(rows),
                    "more": found.more,
                    "unreadable": found.unreadable,
                }
            )
        )
        return
    if form == "ndjson":
        for branch, entry in entries:
            click.echo(_line(_document(branch, entry, tree=tree)))
    else:
        _print(view, entries)
    if found.more:
        click.echo(f"and {found.more:,} more; --limit 0 shows all", err=True)


def _document(branch: "Branch", entry: "Entry", *, tree: bool) -> Any:
    import msgspec

    document = msgspec.to_builtins(entry)
    return {**document, "depth": branch.depth} if tree else document


def _line(document: Any) -> str:
    import msgspec

    return msgspec.json.encode(document).decode()


def _print(view: "View", entries: "list[tuple[Branch, Entry]]") -> None:
    from halo.files.visible import visible

    rows = [
        (
            "  " * branch.depth + entry.session_id,
            visible(entry.agent),
            entry.kind,
            f"{entry.turns} turn{'' if entry.turns == 1 else 's'}",
            age(view, entry.updated_at),
            state_of(entry),
            "  ".join(part for part in (visible(entry.title), _bracketed(remarks_of(entry))) if part),
        )
        for branch, entry in entries
    ]
    for line in columns(rows):
        click.echo(line)
    if not rows:
        click.echo("no sessions", err=True)


def _bracketed(text: str) -> str:
    return f"[{text}]" if text else ""
