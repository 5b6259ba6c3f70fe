"""`halo trust`: let a workspace use what it asks for on this machine."""

import os
import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halo.workspace.trust import Demands


@click.command("trust")
@workspace_option
@click.option("-y", "--yes", is_flag=True, help="Grant it without asking.")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
def command(*, workspace: str | None, yes: bool, revoke: bool) -> int:
    """Show what a workspace asks of this machine, and grant exactly that.

    Without it no key goes to an endpoint that the workspace chose; no environment variable that its settings
    name, and no value of your own settings that only it lays claim to, gets into a prompt; no key of its own
    is used, and no model file that it names is loaded. A change of what it asks for needs a new grant.
    """
    from halo.files.atomic import replace_file
    from halo.files.locks import hold
    from halo.files.visible import visible
    from halo.workspace.trust import Demands, read_demands, read_grants, read_trust, render_trust, trust_file

    builder = open_builder(workspace)
    if builder.bundle is not None and not revoke:
        raise UsageError(
            "this was unpacked from a bundle: there are no layers that could be trusted",
            hint="its agents reach their provider's own endpoint and this machine, no other",
        )
    places = builder.places
    path = trust_file(places.home)
    demands = read_demands(places.tree())
    if not revoke:
        for line in _asked(demands):
            click.echo(visible(line))
        if demands == Demands():
            click.echo("this workspace asks for nothing that needs trust")
            return 0
        if read_grants(places.tree(), places.workspace, places.home).demands == demands:
            click.echo("all of this is allowed already", err=True)
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


def _asked(demands: "Demands") -> "Iterator[str]":
    """Say in a line each what a workspace asks for."""
    from halo.models.endpoints import is_loopback

    for name, provider, endpoint in demands.endpoints:
        here = " (on this machine)" if is_loopback(endpoint) else ""
        yield f"{_who(name)} talks to {endpoint}{here} as {provider}, with that provider's key"
    for setting, variable in demands.environment:
        yield f"settings.yaml: {setting} brings the environment variable {variable} into prompts"
    for name in demands.values:  # no data frame
        yield f"the parameter {name} of your own settings may stand in prompts of this workspace"
    for provider in demands.keys:
        yield f"settings.yaml: a key of {provider} that is not yours is used for what you send"
    for name, model in demands.model_files:
        yield f"{_who(name)} loads the model file {model}, which native code reads"


def _who(name: str) -> str:
    return f"settings.yaml: {name}" if "." in name else f"agent {name}"
