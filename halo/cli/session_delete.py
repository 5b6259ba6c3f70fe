"""`halo session delete`: conversations go for good."""

from typing import TYPE_CHECKING

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import confirm, count, named, open_view, size
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.sessions.keeping.deleting import Deletion, Doomed


@click.command("delete")
@workspace_option
@click.option("-y", "--yes", is_flag=True, help="Without asking.")
@click.option("--force", is_flag=True, help="Also what waits, and a report that was not heard.")
@click.argument("session")
def command(*, workspace: str | None, yes: bool, force: bool, session: str) -> int:
    """Delete SESSION, an id or a session key, and all that it started, for good.

    Says what goes, and asks. A session that a process holds is refused; so is, without --force, one for which
    messages wait, and one whose parent has not heard its report. Artifacts stay; `halo gc` removes those that
    no other session needs.
    """
    from halo.sessions.keeping.deleting import delete, plan

    view = open_view(workspace)
    deletion = plan(view.sessions, named(view, session))
    for each in deletion.doomed:
        click.echo(_said(each), err=True)
    total = _total(deletion)
    if deletion.objections and not force:
        raise UsageError("; ".join(deletion.objections), hint="--force deletes it all the same")
    if not confirm(f"Delete {total} for good?", yes=yes):
        return 1
    delete(view.sessions, deletion, force=force)
    click.echo(f"deleted: {total}", err=True)
    return 0


def _said(doomed: "Doomed") -> str:
    from halo.files.visible import visible

    header = doomed.header
    what = [doomed.folder.id]
    if header is None:
        what.append("cannot be read")
    else:
        what += [header.agent, count(header.turns, "turn")]
    what.append(f"{count(doomed.size.files, 'file')}, {size(doomed.size.bytes)}")
    if doomed.waiting:
        what.append(f"{doomed.waiting} waiting")
    if header is not None and header.title:
        what.append(header.title)
    return visible("  " * doomed.depth + "  ".join(what))


def _total(deletion: "Deletion") -> str:
    taken = deletion.size
    return f"{count(len(deletion.doomed), 'session')} ({count(taken.files, 'file')}, {size(taken.bytes)})"
