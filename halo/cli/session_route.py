"""`halo session route`: which session a message would reach, and why."""

import time
from typing import TYPE_CHECKING, Any

import click

from halo.cli.common import form_option, open_builder, workspace_option
from halo.cli.inbound import inbound_of, inbound_options

if TYPE_CHECKING:
    from halo.sessions.routing.route import Route


@click.command("route")
@workspace_option
@click.option("--channel", required=True, metavar="NAME", help="The channel that the message comes by.")
@inbound_options
@click.option("-a", "--agent", default="default", show_default=True, help="Whom the message is for.")
@click.option("--text", default="", help="The message; one that begins with a trigger begins a session.")
@form_option
def command(
    *,
    workspace: str | None,
    channel: str,
    agent: str,
    text: str,
    form: str,
    **where: str | None,
) -> None:
    """Explain which session a message would reach: its key, whether a session ends, where replies may go.

    Nothing is sent, and no session is changed. The sender counts as one who may use commands.
    """
    from halo.sessions.routing.explaining import explain

    inbound = inbound_of(channel, where, text=text, authorised=True)
    found, notices = _route(workspace, agent, inbound)
    for notice in notices:
        click.echo(f"warning: {notice}", err=True)
    if form == "json":
        click.echo(_as_json(found))
    else:
        click.echo("\n".join(explain(found)))


def _route(workspace: str | None, agent: str, inbound: Any) -> "tuple[Route, tuple[str, ...]]":
    import datetime as dt

    from halo.sessions.find import sessions_folder
    from halo.sessions.machine import user_zone_name
    from halo.sessions.routing.addressing import address
    from halo.sessions.routing.finding import sessions_of
    from halo.sessions.routing.route import route
    from halo.workspace.agents import read_agent
    from halo.workspace.settings.general import read_general

    places = open_builder(workspace).places
    tree = places.tree()
    settings = read_general(tree).session
    whom = read_agent(tree, agent).id
    key = address(settings, whom, inbound).key
    there = sessions_of(sessions_folder(places.halo), places.home, key)
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return route(settings, whom, inbound, there.rows, now, zone=user_zone_name(tree)), there.notices


def _as_json(found: "Route") -> str:
    import msgspec

    from halo.files.canonical import readable_json

    fields = {
        "agent": found.key.agent,
        "key": found.key.text,
        "kind": found.key.kind,
        "action": found.action,
        "session": found.session or None,
        "previous": found.previous or None,
        "text": found.text,
        "trigger": found.trigger.word if found.trigger is not None else None,
        "policy": found.policy._asdict(),
        "reset": msgspec.to_builtins(found.reset),
        "send": msgspec.to_builtins(found.send),
        "settings": found.settings,
        "origin": msgspec.to_builtins(found.origin),
        "notes": found.notes,
        "warnings": found.warnings,
    }
    return readable_json(fields).decode().rstrip("\n")
