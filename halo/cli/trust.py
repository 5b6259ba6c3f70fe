"""`halo trust`: let a workspace use what it asks for on this machine."""

import os
import sys

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError


@click.command("trust")
@workspace_option
@click.option("-y", "--yes", is_flag=True, help="Grant it without asking.")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
def command(*, workspace: str | None, yes: bool, revoke: bool) -> int:
    """Show what a workspace asks of this machine, and grant exactly that.

    Without it no key goes to an endpoint that the workspace chose, and no environment variable that its
    settings name gets into a prompt. A change of what it asks for needs a new grant.
    """
    from halo.files.atomic import replace_file
    from halo.files.locks import hold
    from halo.models.endpoints import is_loopback
    from halo.workspace.trust import read_demands, read_trust, render_trust, trust_file

    builder = open_builder(workspace)
    places = builder.places
    path = trust_file(places.home)
    demands = read_demands(places.tree())
    if not revoke:
        for name, provider, endpoint in demands.endpoints:
            here = " (on this machine)" if is_loopback(endpoint) else ""
            who = f"settings.yaml: {name}" if "." in name else f"agent {name}"
            click.echo(f"{who} talks to {endpoint}{here} as {provider}, with that provider's key")
        for setting, variable in demands.environment:
            click.echo(f"settings.yaml: {setting} brings the environment variable {variable} into prompts")
        if not demands.endpoints and not demands.environment:
            click.echo("this workspace asks for nothing that needs trust")
            return 0
        if not yes and not sys.stdin.isatty():
            raise UsageError("nobody is here to ask", hint="read the lines above, then: halo trust --yes")
        if not yes and not click.confirm(f"Trust {places.workspace} with this?", err=True):
            return 1
    with hold(f"{path}.lock", what="the trust file", timeout=10):
        entries = read_trust(places.home)
        if revoke:
            entries.pop(os.path.realpath(places.workspace), None)
        else:
            entries[os.path.realpath(places.workspace)] = demands.digests
        replace_file(path, render_trust(entries), mode=0o600)
    click.echo("trust taken back" if revoke else "trusted", err=True)
    return 0
