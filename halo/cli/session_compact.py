"""`halo session compact`: put a summary in the place of a session's history."""

import os
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import form_option, open_builder, workspace_option

if TYPE_CHECKING:
    from halo.cli.showing import Progress
    from halo.sessions.long.compacting import Compacted


@click.command("compact")
@workspace_option
@form_option
@click.argument("session")
@click.argument("instructions", required=False, default="")
def command(*, workspace: str | None, form: str, session: str, instructions: str) -> int:
    """Have the model of SESSION sum it up, and go on from the summary; INSTRUCTIONS say what matters.

    Your last message, what is not answered yet and the texts of skills stay as they are. Refused while a turn
    runs. What fails changes nothing, and exits with 1.
    """
    import asyncio

    from halo.cli import showing

    progress = showing.Progress(words=False)
    done = asyncio.run(_compact(workspace, session, instructions, progress))
    if form == "json":
        from halo.files.canonical import readable_json

        click.echo(readable_json(done).decode().rstrip("\n"))
    elif done.problem:
        click.echo(f"session {session} is as it was: {done.problem}", err=True)
    else:
        tokens = f"about {done.tokens_before:,} tokens became {done.tokens_after:,}"
        click.echo(f"session {session} is compacted: {tokens}")
    return 1 if done.problem else 0


async def _compact(
    workspace: str | None, session: str, instructions: str, progress: "Progress"
) -> "Compacted":
    from halo.models.catalogue import cache_dir
    from halo.sessions.desk import Desk
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.naming import named_session
    from halo.sessions.long.compacting import compact

    builder = open_builder(workspace)
    folder = named_session(sessions_folder(builder.places.halo), builder.places.home, session)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    with folder.open(time.time_ns) as held:
        return await compact(desk, held, instructions, progress.show)
