"""`halo chat`: a conversation at a terminal, or one line of stdin after the other."""

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.records.targets import Access
    from halo.sessions.choice import Choice
    from halo.sessions.commands.answers import Answer
    from halo.sessions.desk import Desk
    from halo.sessions.taping import Tape


@click.command("chat")
@workspace_option
@click.option("-a", "--agent", help="Who answers; `default` unless the session is with somebody else.")
@click.option("-s", "--session", metavar="SESSION", help="Go on in this session: an id, or a session key.")
@click.option("-n", "--new", is_flag=True, help="Begin a new session.")
@click.option("--profile", metavar="NAME", default="", help="Set the model of the session, as /model does.")
@click.option(
    "--access",
    type=click.Choice(["full", "workspace", "readonly"]),
    help="What tools may do at most; by default what the session was begun with, else full.",
)
@click.option("--record", metavar="DIR", help="Write every exchange with the model to a file in DIR.")
@click.option(
    "--replay", metavar="DIR", help="Answer from the files in DIR; no key and no network are needed."
)
def command(
    *,
    workspace: str | None,
    agent: str | None,
    session: str | None,
    new: bool,
    profile: str,
    access: "Access | None",
    record: str | None,
    replay: str | None,
) -> None:
    """Talk with an agent. /help shows the commands, Tab completes them, @scope directories and @file paths.

    Without -s and -n the newest session of `halo run` and `halo chat` with that agent goes on. What is typed
    while a turn runs waits for the tool that runs, or for the end of the answer. Ctrl-C or Esc stops the
    answer, Ctrl-C twice or Ctrl-D leaves, Alt-Enter begins a line. Without a terminal every line of stdin is
    a message or a command.
    """
    if session is not None and new:
        raise UsageError("-s goes on in a session, -n begins one: choose one of them")
    if record is not None and replay is not None:
        raise UsageError("--record asks a model, --replay asks none: choose one of them")
    import asyncio

    from halo.sessions.taping import Tape
    from halo.tools.threads import ToolThreads

    desk, choice = _open(workspace, agent, session, new=new, access=access, tape=Tape.of(record, replay))
    if profile:
        choice = _with_model(desk, choice, profile)
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    chat = _on_terminal if on_terminal else _by_lines
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ToolThreads())
        runner.run(chat(desk, choice, access or "full", named=session is not None))


def _open(
    workspace: str | None,
    agent: str | None,
    session: str | None,
    *,
    new: bool,
    access: "Access | None",
    tape: "Tape | None",
) -> "tuple[Desk, Choice]":
    from halo.models.catalogue import cache_dir
    from halo.sessions.choice import CLI, choose
    from halo.sessions.desk import Desk
    from halo.sessions.find import sessions_folder

    builder = open_builder(workspace)
    sessions = sessions_folder(builder.places.halo)
    choice = choose(sessions, agent, CLI, home=builder.places.home, named=session, new=new, access=access)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns, None, tape)
    builder.ensure(choice.target)  # what cannot start is told before anything is typed
    return desk, choice


def _with_model(desk: "Desk", choice: "Choice", profile: str) -> "Choice":
    from halo.sessions.commands.changing import change
    from halo.sessions.commands.reading import Command
    from halo.sessions.talk import OWNER

    return change(desk, Command("model", "/model", profile), choice, OWNER).choice


async def _on_terminal(desk: "Desk", choice: "Choice", access: "Access", *, named: bool) -> None:
    from halo.cli.chat_complete import Words, listing
    from halo.cli.chat_history import TypedHistory
    from halo.cli.chat_prompt import Prompt
    from halo.cli.chat_talk import Talk
    from halo.sessions.commands.reports import conversation_of, help_rows
    from halo.sessions.talk import OWNER
    from halo.workspace.models.naming import model_names

    places, shelf = desk.builder.places, desk.shelf()
    words = Words(
        lambda: help_rows(desk, talk.choice, OWNER),
        lambda: list(model_names(desk.tree)),
        listing(shelf, places.workspace),
    )
    prompt = Prompt(words, TypedHistory(places.home, places.workspace, shelf.mask))
    screen = prompt.screen

    def answered(answer: "Answer") -> None:
        if answer.command == "verbose":
            screen.set_verbose(str(answer.values["verbose"]))
        screen.line(answer.text, dim=False)

    desk.ask = prompt.ask
    talk = Talk(desk, choice, screen.show, screen.line, answered, screen.over, named=named, access=access)
    conversation = conversation_of(choice)
    session = choice.folder.id if choice.folder is not None else ""
    screen.footer.begin(choice.target.agent, session, conversation)
    screen.set_verbose(conversation.standing.settings.get("verbose", ""))
    try:
        await prompt.run(talk)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more Ctrl-C must not cut the end short
        await talk.leave()
        prompt.flush()
    if talk.choice.folder is not None:
        click.echo(f"session {talk.choice.folder.id}", err=True)


async def _by_lines(desk: "Desk", choice: "Choice", access: "Access", *, named: bool) -> None:
    """Take every line of stdin as a message or a command, one after the other."""
    import asyncio

    from halo.cli.asking import terminal_ask
    from halo.cli.chat_talk import Talk
    from halo.cli.showing import Progress
    from halo.sessions.commands.reports import settings_of
    from halo.sessions.talk import Foreground

    progress = Progress(words=True)
    progress.following.verbose = settings_of(choice).get("verbose", "")
    desk.ask = terminal_ask()

    def answered(answer: "Answer") -> None:
        if answer.command == "verbose":
            progress.following.verbose = str(answer.values["verbose"])
        click.echo(answer.text)

    def tell(text: str) -> None:
        click.echo(text, err=True)

    def own() -> str:
        return talk.choice.folder.id if talk.choice.folder is not None else ""

    def over(reason: str) -> None:
        if reason not in ("done", "error"):
            tell(f"ended: {reason}")

    show = Foreground(progress.show, own)
    talk = Talk(desk, choice, show, tell, answered, over, named=named, access=access)
    try:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.strip():
                talk.take(text)
                await talk.idle()
    finally:
        await talk.leave()
    if own():
        tell(f"session {own()}")
