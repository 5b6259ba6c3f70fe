"""`halo session import`: a session of what was exported, or of an array of messages."""

import sys
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option

if TYPE_CHECKING:
    from halo.files.tree import Tree
    from halo.records.targets import AgentTarget
    from halo.sessions.exchange.importing import Form, Read

_SHOWN = 20  # remarks


@click.command("import")
@workspace_option
@click.option("-a", "--agent", help="Whom it is with; by default whom the file names, else default.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "openai", "anthropic"]),
    help="What FILE is; by default what it shows itself to be.",
)
@click.argument("file")
def command(*, workspace: str | None, agent: str | None, form: "Form | None", file: str) -> None:
    """Make a session of FILE (-: stdin), and print its id.

    FILE is what `halo session export --format json` wrote, or an array of messages of OpenAI (Chat) or
    Anthropic, alone or in the body of a request. What was said is taken over; the prompt is the agent's own,
    nothing is fetched, and it has cost nothing yet. What is not taken over is said on stderr. A file that
    cannot be read makes no session.
    """
    from halo.files.visible import shown
    from halo.sessions.exchange.importing import lay_down_import
    from halo.sessions.find import sessions_folder

    builder = open_builder(workspace)
    places = builder.places
    data = _bytes(file)
    read = _read(data, form, file)
    target = _target(places.tree(), agent, read)
    made = lay_down_import(sessions_folder(places.halo), places.home, time.time_ns, target, read)
    for remark in made.remarks[:_SHOWN]:
        click.echo(f"warning: {shown(remark)}", err=True)
    if len(made.remarks) > _SHOWN:
        click.echo(f"warning: and {len(made.remarks) - _SHOWN:,} more of the kind", err=True)
    turns = "1 turn" if made.turns == 1 else f"{made.turns:,} turns"
    click.echo(f"{turns} with {target.agent}; halo run -s {made.folder.id} goes on", err=True)
    click.echo(made.folder.id)


def _read(data: bytes, form: "Form | None", file: str) -> "Read":
    from halo.errors import ExchangeError
    from halo.sessions.exchange.importing import read_import

    try:
        return read_import(data, form, time.time_ns())
    except ExchangeError as error:
        raise ExchangeError(error.message, file=_name(file), hint=error.hint) from error


def _target(tree: "Tree", agent: str | None, read: "Read") -> "AgentTarget":
    """Return whom the session is with. Raises `UnknownNameError` for an agent that the workspace has not."""
    from halo.errors import UnknownNameError
    from halo.records.targets import AgentTarget
    from halo.workspace.agents import read_agent

    try:
        return AgentTarget(read_agent(tree, agent or read.agent or "default").id)
    except UnknownNameError as error:
        if agent is not None:
            raise
        raise UnknownNameError(
            error.message, hint="-a names the agent of this workspace that goes on"
        ) from error


def _bytes(file: str) -> bytes:
    """Read a file, or stdin. Raises OSError and `ExchangeError`."""
    from halo.errors import ExchangeError
    from halo.sessions.exchange.importing import LARGEST

    with sys.stdin.buffer if file == "-" else open(file, "rb") as opened:
        data = opened.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ExchangeError(f"it is larger than {LARGEST >> 20} MiB", file=_name(file))
    return data


def _name(file: str) -> str:
    return "stdin" if file == "-" else file
