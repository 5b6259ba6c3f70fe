"""`halo session show`: everything about one conversation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from halo.cli.common import form_option, workspace_option
from halo.cli.session_common import (
    age,
    as_json,
    columns,
    count,
    named,
    open_view,
    remarks_of,
    size,
    state_of,
)

if TYPE_CHECKING:
    from halo.sessions.keeping.listing import View
    from halo.sessions.keeping.showing import Shown


@click.command("show")
@workspace_option
@click.option(
    "--turns",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the last turns. 0: all.",
)
@form_option
@click.argument("session")
def command(*, workspace: str | None, turns: int, form: str, session: str) -> None:
    """Show SESSION, an id or a session key: how it stands, its figures, its turns, its relatives.

    What of its log is lost is told here, too.
    """
    from halo.files.visible import visible
    from halo.sessions.keeping.showing import show

    view = open_view(workspace)
    shown = show(view, named(view, session))
    if form == "json":
        click.echo(as_json(_document(shown, turns)))
        return
    for line in columns([(name, text) for name, text in _facts(view, shown) if text]):
        click.echo(visible(line))
    for line in _turns(shown, turns):
        click.echo(visible(line))
    for depth, entry in shown.children:
        title = f"  {entry.title}" if entry.title else ""
        click.echo(visible(f"{'  ' * depth}{entry.session_id}  {entry.agent}  {state_of(entry)}{title}"))


def _document(shown: "Shown", turns: int) -> Any:
    import msgspec

    document = msgspec.to_builtins(shown)
    children = [{**msgspec.to_builtins(entry), "depth": depth} for depth, entry in shown.children]
    return {
        "format": 1,
        **document,
        "turns": document["turns"][-turns:] if turns else document["turns"],
        "children": children,
    }


def _facts(view: "View", shown: "Shown") -> Iterator[tuple[str, str]]:
    entry, header, usage = shown.session, shown.header, shown.header.usage
    remarks = remarks_of(entry)
    yield "session", entry.session_id
    yield "title", entry.title
    yield "agent", _target(shown)
    yield "state", state_of(entry) + (f" ({remarks})" if remarks else "")
    yield "key", f"{entry.key} ({entry.kind})" if entry.key else entry.kind
    yield "begun", f"{header.created_at}, by {header.origin}"
    yield "changed", f"{header.updated_at}, {age(view, header.updated_at)} ago"
    yield (
        "settings",
        ", ".join(
            f"{name} {value}"
            for name, value in header.settings.items()
            if name not in ("title", "stopped", "archived")
        ),
    )
    yield "model", header.model
    yield "artifact", header.artifact
    if header.calls:
        tokens = f"{usage.prompt:,} tokens sent ({usage.read:,} from a cache), {usage.output:,} produced"
        yield "used", f"{count(header.calls, 'model call')}, {tokens}"
    yield "cost", f"{header.cost:.4f} {header.currency}" if header.cost else ""
    yield "window", f"{header.context_tokens:,} tokens" if header.context_tokens else ""
    yield "parent", header.parent
    yield "follows", f"{header.previous} ({shown.reason})" if header.previous else ""
    yield "followed by", header.successor
    yield (
        "not sent",
        f"{count(header.undelivered, 'part')} of replies (halo session resend)" * bool(header.undelivered),
    )
    yield "to be sent", f"{count(header.due, 'part')} of replies" * bool(header.due)
    yield "log", f"{count(shown.events, 'event')}, {size(header.log_bytes)}"
    files, taken = shown.attachments
    yield "attachments", f"{count(files, 'file')}, {size(taken)}" if files else ""
    yield "transcript", entry.transcript_path
    yield "damaged", "; ".join(shown.damaged)
    yield "newer", "; ".join(shown.newer)


def _target(shown: "Shown") -> str:
    target = shown.header.target
    if target is None:
        return "its beginning is lost"
    where = f" in {target.directory}" if target.directory else ""
    return f"{target.agent} ({target.role}, access {target.access}){where}"


def _turns(shown: "Shown", most: int) -> list[str]:
    turns = shown.turns[-most:] if most else shown.turns
    earlier = len(shown.turns) - len(turns)
    lines = [f"… {count(earlier, 'earlier turn')}; --turns 0 shows all"] if earlier else []
    rows = [
        (
            f"turn {turn.turn}",
            turn.at,
            turn.reason or "open",
            f"{turn.usage.prompt:,} sent, {turn.usage.output:,} produced",
            turn.message,
        )
        for turn in turns
    ]
    return [*lines, *columns(rows)]
