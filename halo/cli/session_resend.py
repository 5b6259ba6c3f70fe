"""`halo session resend`: send what a channel has not taken."""

import os
import time

import click

from halo.cli.common import open_builder, workspace_option


@click.command("resend")
@workspace_option
@click.argument("session")
def command(*, workspace: str | None, session: str) -> int:
    """Send the parts of replies of SESSION that did not arrive, in order, with the ids that they had.

    A part that fails again holds up those behind it in its reply. Exits with 1 where something is left.
    """
    import asyncio

    sent, left = asyncio.run(_resend(workspace, session))
    parts = "1 part is" if left == 1 else f"{left} parts are"
    click.echo(f"session {session}: {sent} sent" + (f", {parts} left" if left else ""))
    return 1 if left else 0


async def _resend(workspace: str | None, session: str) -> tuple[int, int]:
    from halo.cli import showing
    from halo.models.catalogue import cache_dir
    from halo.sessions.derived import write_derived
    from halo.sessions.desk import Desk
    from halo.sessions.engine.redelivering import send_again
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.naming import named_session

    builder = open_builder(workspace)
    folder = named_session(sessions_folder(builder.places.halo), builder.places.home, session)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    with folder.open(time.time_ns) as held:
        try:
            sent = await send_again(desk, held, showing.Progress(words=False).show)
        finally:
            write_derived(held)
        standing = held.conversation.standing
        return sent, len(standing.undelivered) + len(standing.due)
