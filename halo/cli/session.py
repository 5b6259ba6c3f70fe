"""`halo session`: what can be done with conversations. Each command has a module of its own."""

import click

from halo.cli.late import LateGroup

_COMMANDS = {
    "compact": "halo.cli.session_compact",
    "context": "halo.cli.session_context",
    "pin": "halo.cli.session_pin:pin_command",
    "unpin": "halo.cli.session_pin:unpin_command",
    "route": "halo.cli.session_route",
    "list": "halo.cli.session_list",
    "show": "halo.cli.session_show",
    "tail": "halo.cli.session_tail",
    "search": "halo.cli.session_search",
    "rename": "halo.cli.session_change:rename",
    "archive": "halo.cli.session_change:archive",
    "unarchive": "halo.cli.session_change:unarchive",
    "stop": "halo.cli.session_change:stop",
    "delete": "halo.cli.session_delete",
    "export": "halo.cli.session_export",
    "import": "halo.cli.session_import",
    "fork": "halo.cli.session_fork",
    "repair": "halo.cli.session_repair",
    "resend": "halo.cli.session_resend",
}


@click.group("session", cls=LateGroup, table=_COMMANDS)
def command() -> None:
    """Look at conversations, keep them, and find out which one a message would reach."""
