"""`halo trust`: let a workspace use what it asks for on this machine."""

import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halo.workspace.demands import Demands


@click.command("trust")
@workspace_option
@click.option("-y", "--yes", is_flag=True, help="Grant it without asking.")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
def command(*, workspace: str | None, yes: bool, revoke: bool) -> int:
    """Show what a workspace asks of this machine, and grant exactly that.

    Without it no key goes to an endpoint that the workspace chose; no environment variable that its settings
    name, and no value of your own settings that only it lays claim to, gets into a prompt; no key of its own
    is used, no model file that it names is loaded, and no MCP server that it defines is started or spoken
    to; its agents only read, its settings open nothing to tools, and commands get no secret through it. A
    change of what it asks for needs a new grant.
    """
    from halo.files.visible import visible
    from halo.workspace.demands import Demands, read_demands
    from halo.workspace.trust import read_grants
    from halo.workspace.trust_file import record_trust

    builder = open_builder(workspace)
    if builder.bundle is not None and not revoke:
        raise UsageError(
            "this was unpacked from a bundle: there are no layers that could be trusted",
            hint="its agents reach their provider's own endpoint and this machine, no other",
        )
    places = builder.places
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
        if not yes and not click.confirm(f"Trust {visible(places.workspace)} with this?", err=True):
            return 1
    record_trust(places.home, places.workspace, None if revoke else demands.digests)
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
    for name, definition in demands.mcp:
        yield f"settings.yaml: the MCP server {name} {_server(definition)}"
    for name, definition in demands.channels:
        yield f"settings.yaml: general.delivery.{name} {_connection(definition)}"
    yield from _asked_of_tools(demands)


def _asked_of_tools(demands: "Demands") -> "Iterator[str]":
    """Say what agents would do beyond reading, and with what."""
    from itertools import groupby

    from halo.workspace.tool_demands import OWN_AGENTS

    for agent, entries in groupby(demands.access, key=lambda entry: entry[0]):
        if agent == OWN_AGENTS[0]:
            yield "your own agents, and those of Halo, may use all their tools here, not only read"
        else:
            yield f"agent {agent} may use {', '.join(tool for _, tool in entries)}, not only read"
    for setting, value in demands.tools:
        yield f"settings.yaml: general.tools.{setting} {_OPENS[setting].format(value)}"
    for name, variable in demands.variables:
        yield f"settings.yaml: {name} brings the environment variable {variable} to commands"
    for name in demands.secrets:
        yield f"the secret {name} of your own settings may be used by commands of this workspace"


_OPENS = {
    "network": "lets commands in the sandbox reach the network",
    "private_hosts": "lets web_fetch reach {}, whatever its address",
    "writable": "lets commands in the sandbox write to {}",
    "shell_seconds": "lets a command run for {} seconds, longer than your own settings do",
}


def _server(definition: str) -> str:
    """Say what a server is: what is started or spoken to, and what it is given."""
    import shlex

    import msgspec

    from halo.workspace.mcp.servers import McpServer, is_loopback_address

    server = msgspec.json.decode(definition, type=McpServer)
    given = ", ".join(f"{name}={value}" for name, value in {**server.env, **server.headers}.items())
    if server.url:
        here = " (on this machine)" if is_loopback_address(server.url) else ""
        return f"speaks to {server.url}{here}" + (f" with the headers {given}" if given else "")
    where = f" in {server.cwd}" if server.cwd else ""
    with_ = f" with {given} in its environment" if given else ""
    return f"starts {shlex.join(server.command)}{where}{with_}"


def _connection(definition: str) -> str:
    """Say how a channel is reached, and with what."""
    import msgspec

    from halo.workspace.settings.delivery import Connect

    connect = msgspec.json.decode(definition, type=Connect)
    given = ", ".join(f"{name}={value}" for name, value in connect.params.items())
    return f"sends answers through {connect.type}" + (f" with {given}" if given else "")


def _who(name: str) -> str:
    return f"settings.yaml: {name}" if "." in name else f"agent {name}"
