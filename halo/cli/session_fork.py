"""`halo session fork`: another conversation that goes on behind a turn of this one."""

import time

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import named, open_view


@click.command("fork")
@workspace_option
@click.option(
    "--turn",
    type=click.IntRange(min=1),
    metavar="N",
    help="The last turn in it; by default the last that is over.",
)
@click.argument("session")
def command(*, workspace: str | None, turn: int | None, session: str) -> None:
    """Begin a session with the turns of SESSION up to turn N, and print its id.

    It has what was said and what was set, with its own copies of attachments; not the key, the children or
    the inbox, and it has cost nothing yet. `halo run -s ID` goes on in it. SESSION stays as it is. What of it
    is lost is said on stderr.
    """
    from halo.files.visible import shown
    from halo.sessions.derived import read_header
    from halo.sessions.find import begun_here
    from halo.sessions.forking import fork

    view = open_view(workspace)
    folder = named(view, session)
    made = fork(view.sessions, view.home, folder, turn, time.time_ns)
    for problem in made.missing:
        click.echo(f"warning: missing in it: {shown(problem)}", err=True)
    if not begun_here(read_header(folder), view.home):
        click.echo("warning: what it was made from was begun elsewhere, and came with the folder", err=True)
    click.echo(f"turns 1 to {made.turn} of {folder.id}; halo run -s {made.folder.id} goes on", err=True)
    click.echo(made.folder.id)
