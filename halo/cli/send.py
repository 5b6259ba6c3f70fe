"""`halo send`: a message into a session's inbox, whoever runs it."""

import os
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import form_option, open_builder, workspace_option
from halo.cli.inbound import inbound_of, inbound_options, refuse_undecodable, refuse_without_channel
from halo.cli.json_errors import errors_as_json
from halo.cli.run import typed_message

if TYPE_CHECKING:
    from halo.records.incoming import Interrupt
    from halo.sessions.delegation.answers import Outcome
    from halo.sessions.sending import Sent


@click.command("send")
@workspace_option
@click.option(
    "--interrupt",
    type=click.Choice(["no", "soft", "hard"]),
    default="soft",
    show_default=True,
    help="To a turn that runs: wait for its end, for that of its present tool, or break it off.",
)
@click.option("--id", "message_id", default="", help="Sent twice with the same id, it is taken once.")
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait for the answer.")
@form_option
@click.option("--channel", default="", help="SESSION is an agent; the message came by this channel.")
@inbound_options
@click.option("--name", default="", help="The writer's name, for people.")
@click.option("--owner", is_flag=True, help="The writer may do what the workspace's owner may.")
@click.argument("session")
@click.argument("message", required=False)
def command(
    *,
    workspace: str | None,
    interrupt: "Interrupt",
    message_id: str,
    wait: float,
    form: str,
    channel: str,
    name: str,
    owner: bool,
    session: str,
    message: str | None,
    **where: str | None,
) -> int:
    """Put MESSAGE (or what is on stdin) into the inbox of SESSION, an id or a session key.

    Whoever runs the session takes it: a turn that runs now, `halo worker`, or the next `halo run -s`. A key
    that no session has yet, such as agent:default:main, begins one. With --wait, exit code 0 says that it
    was answered; without an answer it is 1, though the message is delivered.

    With --channel, SESSION is the agent that the message is for. `halo session route` explains which session
    it reaches, and the reply goes back by that channel. A command of Halo is done at once, and its answer
    goes there, too. Without --owner a writer may use only commands that show something, and the turn may only
    read.
    """
    with errors_as_json(wanted=form == "json"):
        import asyncio

        from halo.models.catalogue import cache_dir
        from halo.sessions.desk import Desk
        from halo.sessions.sending import outcome, send

        refuse_undecodable({"channel": channel, "name": name, "id": message_id, **where})
        desk = Desk(open_builder(workspace), os.environ, cache_dir(os.environ), time.time_ns)
        text = typed_message(message)
        if channel:
            from halo.cli.showing import Progress
            from halo.sessions.commands.by_channel import take_in

            inbound = inbound_of(channel, where, name=name, text=text, authorised=owner)
            show = Progress(words=False).show
            taking = take_in(desk, session, inbound, show, interrupt=interrupt, message_id=message_id)
            taken = asyncio.run(taking)
            for warning in taken.warnings:
                click.echo(f"warning: {warning}", err=True)
            if taken.sent is None:
                return _print_answer(taken.told, form)
            sent = taken.sent
        else:
            refuse_without_channel(where)
            sent = send(desk, session, text, interrupt=interrupt, message_id=message_id)
        found = asyncio.run(outcome(sent, wait)) if wait else None
    _print(sent, found, form)
    return 0 if found is None or found.ended == "done" else 1


def _print_answer(told: tuple[str, ...], form: str) -> int:
    """Say what a command answered; nothing waits for the session."""
    if form == "json":
        import msgspec

        document = {"format": 1, "answer": "\n".join(told)}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        click.echo("\n".join(told))
    return 0


def _print(sent: "Sent", found: "Outcome | None", form: str) -> None:
    """Say whether it was delivered and whether it was answered: two things."""
    delivery = "accepted" if sent.new else "delivered before"
    if form == "json":
        import msgspec

        document = {"format": 1, "session": sent.folder.id, "id": sent.id, "delivery": delivery}
        if found is not None:
            document["reply_state"] = found.ended or ("working" if found.taken else "waiting")
            document["reply"] = found.text if found.ended else ""
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    begun = ", begun for it" if sent.begun else ""
    click.echo(f"session {sent.folder.id}{begun}: {delivery}", err=True)
    if found is not None and found.ended:
        click.echo(found.text)
    elif found is not None:
        state = "is worked on" if found.taken else "waits; halo worker takes it"
        click.echo(f"no answer yet: the message {state}", err=True)
