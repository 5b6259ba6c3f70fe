"""`halo session export`: a conversation for people, for providers, or whole."""

import os
import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import workspace_option
from halo.cli.session_common import named, open_view
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.sessions.exchange.exporting import Form
    from halo.sessions.exchange.masking import Mask


@click.command("export")
@workspace_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "html", "json", "openai", "anthropic"]),
    default="markdown",
    show_default=True,
    help="A document for people, the whole session, or an array of messages for a provider.",
)
@click.option("--turns", metavar="A-B", default="", help="Only these turns: 2-5, 3-, -4 or 7.")
@click.option("--no-tools", is_flag=True, help="Leave out what tools were asked and answered.")
@click.option("-o", "--output", metavar="FILE", help="Write it to FILE, which must not be there yet.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@click.argument("session")
def command(
    *,
    workspace: str | None,
    form: "Form",
    turns: str,
    no_tools: bool,
    output: str | None,
    force: bool,
    session: str,
) -> None:
    """Write SESSION, an id or a session key, to stdout or to a file.

    markdown and html are for people: tools are folded, what Halo itself asked is left out. json loses
    nothing, and `halo session import` makes a session of it again. openai and anthropic are arrays of
    messages, each call with its result, without the prompt. Values of secrets that Halo knows are masked in
    all of them. What of the session could not be read is said on stderr.
    """
    from halo.files.visible import shown
    from halo.sessions.exchange.exporting import Chosen, export, write_export
    from halo.sessions.exchange.reading import Span, read_span, read_whole

    if force and output is None:
        raise UsageError("--force replaces the file of -o, and there is none")
    span = read_span(turns) if turns else Span()
    mask = _mask(workspace)  # first: where secrets are not known nothing leaves
    view = open_view(workspace)
    whole = read_whole(named(view, session))
    data = export(whole, form, Chosen(span, tools=not no_tools), mask)
    for problem in (*whole.damaged, *whole.newer):
        click.echo(f"warning: {shown(problem)}", err=True)
    if output is not None:
        _refuse_folder(output)
        write_export(output, data, force=force)
    elif sys.stdout.isatty():
        from halo.cli.markdown_stream import safe

        click.echo(safe(data.decode()), nl=False)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _mask(workspace: str | None) -> "Mask":
    """Return what masks all secrets of the workspace and of this machine that Halo knows."""
    from halo.sessions.secrets import secret_mask
    from halo.workspace.places import find_places
    from halo.workspace.trust import read_grants

    places = find_places(workspace or os.getcwd(), os.environ)
    tree = places.tree()
    return secret_mask(tree, os.environ, read_grants(tree, places.workspace, places.home))


def _refuse_folder(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder")
    if not os.path.isdir(folder):
        raise UsageError(f"there is no folder {folder}")
