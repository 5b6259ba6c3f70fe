"""`halo session pin` and `halo session unpin`: which artifact the turns of a session run from."""

import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.sessions.folder import OpenSession


@click.command("pin")
@workspace_option
@click.argument("session")
@click.argument("artifact", required=False, default="")
def pin_command(*, workspace: str | None, session: str, artifact: str) -> None:
    """Let every turn of SESSION run from ARTIFACT, or from that of its last turn.

    ARTIFACT is an id or its first digits. Changes of layers do not reach the session then; skills and rules
    of directories are those of the present, and tools and policies of today bound what the artifact may do.
    """
    from halo.sessions.long.pinning import pin

    builder = open_builder(workspace)
    with _held(builder, session) as held:
        pinned = pin(builder, held, artifact, "user")
    click.echo(f"session {session} runs from artifact {pinned.id[:12]} until it is unpinned")


@click.command("unpin")
@workspace_option
@click.argument("session")
def unpin_command(*, workspace: str | None, session: str) -> None:
    """Let the turns of SESSION run from fresh artifacts again."""
    from halo.sessions.long.pinning import unpin

    with _held(open_builder(workspace), session) as held:
        pinned = unpin(held, "user")
    was = f"it was pinned to {pinned[:12]}" if pinned else "it was not pinned"
    click.echo(f"session {session} runs from fresh artifacts; {was}")


def _held(builder: "Builder", session: str) -> "OpenSession":
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.naming import named_session

    places = builder.places
    return named_session(sessions_folder(places.halo), places.home, session).open(time.time_ns)
