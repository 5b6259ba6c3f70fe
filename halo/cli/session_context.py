"""`halo session context`: what fills the window of a session's model."""

import click

from halo.cli.common import open_builder, workspace_option


@click.command("context")
@workspace_option
@click.option(
    "--detail", is_flag=True, help="Every segment, tool and class of messages, not only their sums."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object with every part.",
)
@click.argument("session")
def command(*, workspace: str | None, detail: bool, form: str, session: str) -> None:
    """Show what fills the window: prompt by segment, tools, few-shots, messages by class, and what is free.

    Of the artifact that the last turn of SESSION ran from, and what was said since. Tokens are estimates but
    for what the provider counted. Nothing is sent and nothing changes.
    """
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.naming import named_session
    from halo.sessions.long.look import look_at
    from halo.sessions.long.window_text import window_lines

    builder = open_builder(workspace)
    folder = named_session(sessions_folder(builder.places.halo), builder.places.home, session)
    window = look_at(builder, folder)
    if form == "json":
        from halo.files.canonical import readable_json

        click.echo(readable_json(window).decode().rstrip("\n"))
    else:
        click.echo("\n".join(window_lines(window, detail=detail)))
