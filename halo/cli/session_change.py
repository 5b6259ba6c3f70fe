"""`halo session rename`, `archive`, `unarchive` and `stop`."""

import os
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.cli.session_common import count, named, open_view

if TYPE_CHECKING:
    from halo.records.headers import Header
    from halo.sessions.folder import SessionFolder


@click.command("rename")
@workspace_option
@click.argument("session")
@click.argument("title")
def rename(*, workspace: str | None, session: str, title: str) -> None:
    """Call SESSION (an id or a session key) TITLE; an empty one takes the title back.

    Without a title of its own a session is called by its first message.
    """
    from halo.sessions.keeping.changing import rename as set_title

    view = open_view(workspace)
    set_title(named(view, session), title, time.time_ns)


@click.command("archive")
@workspace_option
@click.option("--stop", is_flag=True, help="Stop them first, and take what waits into their history.")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
def archive(*, workspace: str | None, stop: bool, sessions: tuple[str, ...]) -> int:
    """Put SESSION, and all that it started, away: no list shows it, and nobody goes on in it.

    A session is refused while a turn runs, or messages wait, in it or below it, unless --stop. Its files stay
    where they are; `halo session unarchive` takes it out again.
    """
    from halo.sessions.keeping.changing import archive as put_away

    view = open_view(workspace)
    code = 0
    for folder in [named(view, session) for session in sessions]:
        if stop:
            code |= _stop(workspace, folder)
        done = put_away(view.sessions, _header(folder), time.time_ns)
        click.echo(f"{folder.id}: {count(len(done), 'session')} archived", err=True)
    return code


@click.command("unarchive")
@workspace_option
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
def unarchive(*, workspace: str | None, sessions: tuple[str, ...]) -> None:
    """Take SESSION, and all that it started, out of the archive. What waits for it is taken again."""
    from halo.sessions.keeping.changing import unarchive as take_out

    view = open_view(workspace)
    for folder in [named(view, session) for session in sessions]:
        done = take_out(view.sessions, _header(folder), time.time_ns)
        click.echo(f"{folder.id}: {count(len(done), 'session')} taken out of the archive", err=True)


@click.command("stop")
@workspace_option
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION...")
def stop(*, workspace: str | None, sessions: tuple[str, ...]) -> int:
    """Stop what runs in SESSION and in all that it started, whichever process runs it.

    Messages that wait are kept in its history, unanswered. It says how many sessions were stopped. Exits with
    1 when one has not ended after some seconds: it ends when its tool does.
    """
    view = open_view(workspace)
    code = 0
    for folder in [named(view, session) for session in sessions]:
        code |= _stop(workspace, folder)
    return code


def _stop(workspace: str | None, folder: "SessionFolder") -> int:
    import asyncio

    from halo.models.catalogue import cache_dir
    from halo.sessions.choice import choose
    from halo.sessions.commands.stopping import stop_tree
    from halo.sessions.desk import Desk
    from halo.sessions.find import sessions_folder

    builder = open_builder(workspace)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    sessions = sessions_folder(builder.places.halo)
    choice = choose(sessions, None, "session", home=builder.places.home, named=folder.id, new=False)
    stopped = asyncio.run(stop_tree(desk, choice, "user"))
    click.echo(f"{folder.id}: {stopped.text}", err=True)
    return 1 if stopped.still else 0


def _header(folder: "SessionFolder") -> "Header":
    from halo.errors import LogError
    from halo.sessions.derived import read_header

    header = read_header(folder)
    if header is None:
        raise LogError("there is no log here", file=folder.events)
    return header
