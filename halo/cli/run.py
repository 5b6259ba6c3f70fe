"""`halo run`: one turn, the answer on stdout as it comes."""

import os
import sys
import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, profile_option, workspace_option
from halo.cli.json_errors import errors_as_json
from halo.cli.showing import Progress, show_lines, write_line
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.records.targets import Access
    from halo.sessions.commands.answers import Answer
    from halo.sessions.reply import Reply
    from halo.sessions.taping import Tape

# Of a session that came with the folder, the log of a worker may be a link.
_LOG = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@click.command("run")
@workspace_option
@click.option("-a", "--agent", help="Who answers; `default` unless the session is with somebody else.")
@click.option("-s", "--session", metavar="SESSION", help="Go on in this session: an id, or a session key.")
@click.option("-n", "--new", is_flag=True, help="Begin a new session.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "ndjson"]),
    default="text",
    show_default=True,
    help="The answer as it comes, one JSON object at the end, or every event as a line of JSON.",
)
@profile_option
@click.option(
    "--access",
    type=click.Choice(["full", "workspace", "readonly"]),
    help="What tools may do at most; by default what the session was begun with, else full.",
)
@click.option("--frozen", is_flag=True, help="Refuse a stale artifact instead of building it.")
@click.option("--detach", is_flag=True, help="Leave the turn to a process of its own, and return.")
@click.option("--record", metavar="DIR", help="Write every exchange with the model to a file in DIR.")
@click.option(
    "--replay", metavar="DIR", help="Answer from the files in DIR; no key and no network are needed."
)
@click.argument("message", required=False)
def command(
    *,
    workspace: str | None,
    agent: str | None,
    session: str | None,
    new: bool,
    form: str,
    profile: str,
    access: "Access | None",
    frozen: bool,
    detach: bool,
    record: str | None,
    replay: str | None,
    message: str | None,
) -> int:
    """Send MESSAGE (or what is on stdin: no message, or `-`) to an agent and print its answer.

    Without -s and -n the newest session that `halo run` began with that agent goes on. Progress and
    figures go to stderr. A message that is a command of Halo (`/help` shows them) is done, and a space before
    it sends it as text. A message that begins with `-` goes behind `--`. Ctrl-C ends the turn; what was
    said so far is kept in the session. A session does not remember --profile: each turn names its own.
    What tools may do is the least of --access, the settings (general.tools.access) and what `halo trust`
    allowed the workspace.
    """
    with errors_as_json(wanted=form == "json"):
        if session is not None and new:
            raise UsageError("-s goes on in a session, -n begins one: choose one of them")
        if record is not None and replay is not None:
            raise UsageError("--record asks a model, --replay asks none: choose one of them")
        if detach:
            refused = {"--profile": profile, "--frozen": frozen, "--record": record, "--replay": replay}
            if given := [name for name, value in refused.items() if value]:
                raise UsageError(f"--detach leaves the turn to another process, which knows no {given[0]}")
            return _detach(
                workspace, agent, session, typed_message(message), new=new, access=access, form=form
            )
        from halo.sessions.commands.answers import Answer
        from halo.sessions.taping import Tape

        progress = Progress(words=form == "text")
        reply = _talk(
            workspace,
            agent,
            session,
            typed_message(message),
            new=new,
            profile=profile,
            access=access,
            frozen=frozen,
            tape=Tape.of(record, replay),
            progress=None if form == "ndjson" else progress,
        )
    if form == "json":
        click.echo(_as_json(reply))
    elif form == "ndjson":
        write_line("command" if isinstance(reply, Answer) else "reply", reply)
    if isinstance(reply, Answer):
        if form == "text":
            click.echo(reply.text)
        return 0
    _figures(reply)
    return 0 if reply.reason in ("done", "max_tokens") else 1


def typed_message(argument: str | None) -> str:
    """Return the message of a command: its argument, or what is on stdin for none and for `-`."""
    if argument is not None and argument != "-":
        data = os.fsencode(argument)  # the bytes that were typed, whatever the locale made of them
    elif sys.stdin.isatty():
        raise UsageError("no message", hint='halo run "MESSAGE", or pipe one in')
    else:
        data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the message is not UTF-8 (byte {error.start + 1})", hint="convert it, or send a file's name"
        ) from None
    if not text.strip():
        raise UsageError("the message is empty")
    return text


def _talk(
    workspace: str | None,
    agent: str | None,
    session: str | None,
    message: str,
    *,
    new: bool,
    profile: str,
    access: "Access | None",
    frozen: bool,
    tape: "Tape | None",
    progress: "Progress | None",
) -> "Reply | Answer":
    from halo.cli.asking import terminal_ask
    from halo.models.catalogue import cache_dir
    from halo.sessions.choice import choose
    from halo.sessions.commands.reports import settings_of
    from halo.sessions.desk import Desk
    from halo.sessions.find import sessions_folder
    from halo.sessions.talk import run_typed, typed

    builder = open_builder(workspace)
    sessions = sessions_folder(builder.places.halo)
    home = builder.places.home
    choice = choose(sessions, agent, "cli", home=home, named=session, new=new, profile=profile, access=access)
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns, terminal_ask(), tape)
    if progress is not None:
        progress.following.verbose = settings_of(choice).get("verbose", "")
    said = typed(message, desk.now_ns())
    show = progress.show if progress is not None else show_lines
    return run_typed(desk, choice, said, show, frozen=frozen, named=session is not None)


def _detach(
    workspace: str | None,
    agent: str | None,
    session: str | None,
    message: str,
    *,
    new: bool,
    access: "Access | None",
    form: str,
) -> int:
    """Put the message into the session's inbox, and start a process that takes it."""
    import subprocess

    from halo.models.catalogue import cache_dir
    from halo.sessions.choice import choose
    from halo.sessions.commands.doing import admit
    from halo.sessions.commands.reading import read_command
    from halo.sessions.derived import read_header
    from halo.sessions.desk import Desk
    from halo.sessions.find import begun_here, sessions_folder
    from halo.sessions.inbox.folder import Inbox
    from halo.sessions.inbox.marks import mark
    from halo.sessions.talk import OWNER, typed
    from halo.workspace.settings.general import read_general

    builder = open_builder(workspace)
    triggers = read_general(builder.places.tree()).session.reset_triggers
    if (command := read_command(message, OWNER, triggers)) is not None:
        raise UsageError(f"--detach leaves a turn to another process, and {command.word} is a command")
    sessions, home = sessions_folder(builder.places.halo), builder.places.home
    choice = choose(sessions, agent, "cli", home=home, named=session, new=new, access=access)
    if choice.folder is not None and not begun_here(read_header(choice.folder), home):
        raise UsageError(
            f"session {choice.folder.id} was begun elsewhere, and no other process goes on in it by itself",
            hint=f"without --detach: halo run -s {choice.folder.id}",
        )
    builder.ensure(choice.target)  # what cannot start is told to whoever is here
    now = time.time_ns()
    desk = Desk(builder, os.environ, cache_dir(os.environ), time.time_ns)
    admitted = admit(desk, choice, typed(message, now, access=access or "full"), named=session is not None)
    for notice in (*choice.notices, *admitted.notices):
        click.echo(notice, err=True)
    choice, folder = admitted.choice, admitted.choice.folder
    if folder is None:
        with choice.open(time.time_ns) as opened:
            folder = opened.folder
    worker = [
        sys.executable,
        "-m",
        "halo",
        "worker",
        "-w",
        builder.places.workspace,
        "--once",
        "-s",
        folder.id,
    ]
    nowhere = subprocess.DEVNULL
    with open(os.open(os.path.join(folder.path, "worker.log"), _LOG, 0o644), "ab") as log:
        assert admitted.message is not None  # noqa: S101  # it is no command
        Inbox(folder.path).put(admitted.message, now)
        mark(sessions, folder.id)
        subprocess.Popen(  # this very program
            worker, stdin=nowhere, stdout=log, stderr=log, start_new_session=True
        )
    if form == "text":
        click.echo(folder.id)
    else:
        write_line("detached", {"session": folder.id})
    return 0


def _figures(reply: "Reply") -> None:
    usage = reply.usage
    tokens = f"{usage.prompt:,} prompt tokens ({usage.read:,} cached), {usage.output:,} out"
    # A bound can be reached before the first call.
    called = f"{reply.model} · {tokens}" if reply.model or usage.prompt or usage.output else "no model call"
    click.echo(
        f"session {reply.session} · turn {reply.turn} · {reply.agent} · {called}"
        + ("" if reply.reason == "done" else f" · ended: {reply.reason}"),
        err=True,
    )


def _as_json(reply: "Reply | Answer") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(reply), indent=2).decode()
