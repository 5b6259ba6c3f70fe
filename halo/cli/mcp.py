"""`halo mcp`: servers whose tools agents use, and this workspace as a server for others."""

import os
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import MissingEngineError

if TYPE_CHECKING:
    from halo.files.tree import Tree
    from halo.records.targets import Access
    from halo.tools.mcp.looking import Look
    from halo.workspace.mcp.lock import Lock


@click.group("mcp")
def command() -> None:
    """Servers of the Model Context Protocol: lock their tools, or be one."""


@command.command("lock")
@workspace_option
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the lock would change.")
@click.argument("servers", nargs=-1, metavar="[SERVER]...")
def lock(*, workspace: str | None, check: bool, servers: tuple[str, ...]) -> int:
    """Start servers, list their tools, and write down what they are in .halo/mcp.lock.json.

    Without SERVER all that agents list or the workspace's settings define. Prompts are compiled from the lock
    alone, and a tool that is not any more what was locked is not called. What changed is printed: read it,
    for a model is told it. Exits with 1 when a server cannot be reached; its tools stay as they were locked.
    """
    import asyncio

    from halo.files.atomic import replace_file
    from halo.files.locks import hold
    from halo.sessions.access import tool_settings
    from halo.sessions.servers import ready_servers
    from halo.tools.mcp.looking import locked_anew, look_at
    from halo.workspace.mcp.lock import read_lock, render_lock
    from halo.workspace.mcp.wanted import wanted_servers
    from halo.workspace.trust import read_grants

    _need_sdk()
    places = open_builder(workspace).places
    tree = places.tree()
    grants = read_grants(tree, places.workspace, places.home)
    names = _chosen(servers, tree)
    starts = ready_servers(places, names, os.environ, grants)
    free = tool_settings(tree, grants).access == "full"
    looks = asyncio.run(look_at(starts, free=free))
    path = os.path.join(places.halo, "mcp.lock.json")
    with hold(os.path.join(places.halo, "build", "mcp.lock"), what="the lock of MCP servers", timeout=30):
        before = read_lock(tree)
        gone = frozenset() if servers else frozenset(before.servers) - frozenset(wanted_servers(tree))
        after = locked_anew(before, looks, gone=gone)
        changed = before != after
        if changed and not check:
            replace_file(path, render_lock(after))
    _report(before, after, looks)
    failed = any(look.problem for look in looks)
    if changed:
        click.echo("mcp.lock.json would change" if check else "mcp.lock.json is written", err=True)
    elif not failed:
        click.echo("mcp.lock.json is as it was", err=True)
    return 1 if failed or (check and changed) else 0


def _need_sdk() -> None:
    from halo.tools.mcp.engine import is_installed

    if not is_installed():
        raise MissingEngineError("the SDK of MCP is not installed", hint="pip install 'halo-make[mcp]'")


def _chosen(servers: tuple[str, ...], tree: "Tree") -> tuple[str, ...]:
    from halo.errors import UnknownNameError
    from halo.workspace.mcp.defined import defined_servers
    from halo.workspace.mcp.wanted import wanted_servers

    defined = defined_servers(tree)
    for name in servers:
        if name not in defined:
            raise UnknownNameError.of("MCP server", name, sorted(defined))
    return tuple(dict.fromkeys(servers)) or wanted_servers(tree)


def _report(before: "Lock", after: "Lock", looks: "tuple[Look, ...]") -> None:
    """Print what changed, and say what could not be looked at or locked."""
    from halo.files.visible import visible
    from halo.workspace.mcp.differences import tool_changes

    for name in sorted({*before.servers, *after.servers}):
        changes = tool_changes(before.servers.get(name), after.servers.get(name))
        if changes:
            click.echo(visible(name))
        for change in changes:
            click.echo(f"  {change.kind} {visible(change.name)}")
            for line in change.lines:
                click.echo(f"      {visible(line)}")
    for look in looks:
        for tool, why in look.refused:
            click.echo(f"warning: {visible(look.name)}/{visible(tool)} is left out: {visible(why)}", err=True)
        if look.problem:
            click.echo(f"halo: {visible(look.name)}: {visible(look.problem)}", err=True)
            for line in look.errors.splitlines():
                click.echo(f"  {visible(line)}", err=True)


@command.command("list")
@workspace_option
def list_(*, workspace: str | None) -> None:
    """List servers: where each is defined, whether it is allowed, and its locked tools. Starts none."""
    from halo.files.visible import visible
    from halo.workspace.mcp.defined import defined_servers
    from halo.workspace.mcp.lock import read_lock
    from halo.workspace.trust import read_grants

    places = open_builder(workspace).places
    tree = places.tree()
    grants = read_grants(tree, places.workspace, places.home)
    defined, locked = defined_servers(tree), read_lock(tree).servers
    for name in sorted({*defined, *locked}):
        found = defined.get(name)
        if found is None:
            state = "not defined on this machine"
        elif grants.server(name, found):
            state = "allowed" if found.scope == "workspace" else "of this machine's settings"
        else:
            state = "not allowed: halo trust"
        server = locked.get(name)
        tools = (
            "not locked" if server is None else ", ".join(tool.name for tool in server.tools) or "no tools"
        )
        click.echo(visible(f"{name}  {state}  {tools}"))
    if not defined and not locked:
        click.echo("no server is defined: general.mcp.servers in settings.yaml", err=True)


@command.command("serve")
@workspace_option
@click.option(
    "--http", "port", type=click.IntRange(0, 65535), help="Serve on this port of 127.0.0.1 instead."
)
@click.option(
    "--access",
    type=click.Choice(["full", "workspace", "readonly"]),
    default="readonly",
    show_default=True,
    help="The most that agents may do.",
)
def serve(*, workspace: str | None, port: int | None, access: "Access") -> int:
    """Offer this workspace to other clients over stdin and stdout: prompts, agents as tools, sessions.

    Prompts: agent/ID with an optional directory, and skill/ID with arguments for skills that users may
    invoke. Tools: ask_ID runs a turn with the agent in a new session. Resources: every session, as Markdown.
    Everything but the protocol goes to stderr. With --http anybody who can reach 127.0.0.1 on this machine is
    served at /mcp.
    """
    import time

    from halo.models.catalogue import cache_dir
    from halo.sessions.desk import Desk
    from halo.sessions.offer import Offer
    from halo.sessions.shown_sessions import ShownSessions

    _need_sdk()
    from halo.cli.mcp_server import serve_http, serve_stdio

    builder = open_builder(workspace)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    offer, sessions = Offer(desk, access), ShownSessions(desk)
    name = os.path.basename(builder.places.workspace) or "halo"
    if port is None:
        serve_stdio(offer, sessions, name)
    else:
        serve_http(offer, sessions, name, port)
    return 0
