"""`halo session tail`: the end of a conversation, and what comes."""

import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import named, open_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from halo.records.events import Event
    from halo.sessions.folder import SessionFolder
    from halo.sessions.keeping.tailing import LogReader, Turns
    from halo.sessions.reading import Unread

_EVERY = 0.2  # seconds between two looks: two calls of stat


@click.command("tail")
@workspace_option
@click.option(
    "-n",
    "--turns",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How many of the last turns.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "ndjson"]),
    default="text",
    show_default=True,
    help="As in the transcript, or an event a line, with what is kept in attachments.",
)
@click.argument("session")
def command(*, workspace: str | None, turns: int, follow: bool, form: str, session: str) -> None:
    """Print the last turns of SESSION, an id or a session key.

    With -f it goes on through all turns, whoever runs them, and into the session that follows this one when
    its key leads to another. It ends when the session is deleted.
    """
    from halo.sessions.keeping.tailing import LogReader, Turns

    view = open_view(workspace)
    folder = named(view, session)
    write = _as_json if form == "ndjson" else _as_text
    last = folder.read().turn
    through = Turns(last, turns)
    while True:
        with LogReader(folder) as reader:
            successor = _show(reader, through, write, follow=follow)
        if not successor:
            return
        click.echo(f"session {folder.id} is followed by {successor}", err=True)
        folder, through = _begun(view.sessions, successor), Turns(0, 1)  # all of it


def _show(
    reader: "LogReader", through: "Turns", write: "Callable[[Event | Unread], str]", *, follow: bool
) -> str:
    """Print a session, and return the one that follows it: empty where the end is reached."""
    successor = ""
    for found in reader.read():
        successor = _successor(found) or successor
        _print(write(found) if through.shows(found) else "")
    if not follow:
        for found in reader.end():
            _print(write(found) if through.shows(found) else "")
        return ""
    while not successor:
        if reader.gone():
            click.echo(f"session {reader.folder.id} was deleted", err=True)
            return ""
        time.sleep(_EVERY)
        for found in reader.read():
            successor = _successor(found) or successor
            _print(write(found))
    return successor


def _begun(sessions: str, session_id: str) -> "SessionFolder":
    """Wait for a session that was named before it is begun."""
    from halo.sessions.folder import SessionFolder

    folder = SessionFolder(sessions, session_id)
    while not folder.exists():
        time.sleep(_EVERY)
    return folder


def _successor(found: "Event | Unread") -> str:
    from halo.records.session_events import SessionRolledOver
    from halo.sessions.reading import Unread, payload_of

    data = None if isinstance(found, Unread) else payload_of(found).data
    return data.to if isinstance(data, SessionRolledOver) else ""


def _as_text(found: "Event | Unread") -> str:
    from halo.files.visible import visible
    from halo.sessions.derived import render
    from halo.sessions.reading import Unread

    text = render(found)
    if not text and isinstance(found, Unread):
        text = f"\n*{found.problem}*\n"
    return "\n".join(visible(line) for line in text.split("\n"))


def _as_json(found: "Event | Unread") -> str:
    import msgspec

    from halo.sessions.reading import Unread

    if isinstance(found, Unread):
        return msgspec.json.encode({"problem": found.problem}).decode() + "\n"
    return msgspec.json.encode(found).decode() + "\n"


def _print(text: str) -> None:
    if text:
        click.echo(text, nl=False)  # which flushes
