"""`halo session`: what can be done with conversations. Each command has a module of its own."""

import click

from halo.cli.late import LateGroup

_COMMANDS = {
    "route": "halo.cli.session_route",
}


@click.group("session", cls=LateGroup, table=_COMMANDS)
def command() -> None:
    """Look at conversations, and find out which one a message would reach."""
