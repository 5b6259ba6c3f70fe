"""The door for what a person says: a command is done here, all else becomes the message of a turn.

decided = read_command(...)                       once, on what was typed
done = await perform(desk, decided, ...)          a command: an answer, perhaps another session and a turn
done = admit(desk, choice, message, ...)          no command: the message, perhaps in a new session
"""

import secrets

import msgspec

from halo.errors import UnknownNameError, UsageError
from halo.files.visible import visible
from halo.records.incoming import FORMAT, Incoming, Sender
from halo.sessions.choice import Choice
from halo.sessions.commands.answers import Answer, Done
from halo.sessions.commands.changing import change
from halo.sessions.commands.reading import Command, read_command
from halo.sessions.commands.reports import artifact_of, conversation_of, help_rows, help_text, status
from halo.sessions.commands.rollover import due, finished, roll_over, spoken
from halo.sessions.commands.stopping import stop_tree
from halo.sessions.desk import Desk
from halo.sessions.ids import timestamp
from halo.sessions.reply import Show
from halo.workspace.models.naming import profile_named
from halo.workspace.settings.general import read_general

GREETING = (
    "A new session has begun, and the user has not said anything yet. Greet them in one or two short "
    "sentences, in your own voice, and ask what they would like to do. Use no tools, and do not speak of "
    "this request."
)

_SHORTEST = 3  # characters of a part of a model's name


def command_in(desk: Desk, message: Incoming) -> Command | None:
    """Return the command that a message is, by the settings. Raises as `read_command` does."""
    return read_command(message.text, message.sender, read_general(desk.tree).session.reset_triggers)


async def enter(desk: Desk, choice: Choice, message: Incoming, show: Show, *, named: bool) -> Done:
    """Take a message in at the door, whatever it is. `named` as in `admit`."""
    command = command_in(desk, message)
    if command is not None:
        return await perform(desk, command, choice, message, show)
    return admit(desk, choice, message, named=named)


def admit(desk: Desk, choice: Choice, message: Incoming, *, named: bool) -> Done:
    """Return where a message goes: a rule of resets may end the session first.

    `named`: the user has named this very session, which no rule ends. Raises `BusyError`.
    """
    if named or message.sender.kind != "user":
        return Done(choice, message)
    choice = finished(desk, choice)
    reset = due(desk, choice)
    if not reset.due or choice.folder is None:
        return Done(choice, message)
    ended = choice.folder.id
    choice = roll_over(desk, choice, reset.reason, reset.inputs)
    assert choice.folder is not None  # noqa: S101  # it has just been begun
    return Done(choice, message, notices=(spoken(reset, ended, choice.folder.id),))


async def perform(desk: Desk, command: Command, choice: Choice, message: Incoming, show: Show) -> Done:
    """Do what a command says; `show` is told how it goes. Raises `HaloError`: nothing was done then."""
    sender = message.sender
    match command.name:
        case "new" | "reset":
            return _begin_anew(desk, command, finished(desk, choice), message)
        case "stop":
            stopped = await stop_tree(desk, choice, sender.name or "the user")
            counted = {"stopped": stopped.sessions, "kept": stopped.kept, "still": list(stopped.still)}
            return Done(choice, answer=Answer.of(command.name, choice, stopped.text, **counted))
        case "compact":
            return await _compacted(desk, command, choice, show)
        case "context":
            return _context(desk, command, choice, sender)
        case "status":
            text, values = status(desk, choice, sender)
            return Done(choice, answer=Answer.of(command.name, choice, text, **values))
        case "help":
            rows = help_rows(desk, choice, sender)
            values = {"commands": [row._asdict() for row in rows]}
            return Done(choice, answer=Answer.of(command.name, choice, help_text(rows), **values))
    return change(desk, command, finished(desk, choice), sender)


async def _compacted(desk: Desk, command: Command, choice: Choice, show: Show) -> Done:
    from halo.sessions.long.compacting import compact

    if choice.folder is None:
        raise UsageError("there is nothing to sum up yet")
    with choice.folder.open(desk.now_ns) as session:
        result = await compact(desk, session, command.rest, show)
    tokens = f"about {result.tokens_before:,} tokens became {result.tokens_after:,}"
    text = (
        f"nothing has changed: {result.problem}" if result.problem else f"the history is summed up: {tokens}"
    )
    values = {"tokens_before": result.tokens_before, "tokens_after": result.tokens_after}
    answer = Answer.of(command.name, choice, visible(text), **values, problem=result.problem)
    return Done(choice, answer=answer)


def _context(desk: Desk, command: Command, choice: Choice, sender: Sender) -> Done:
    from halo.sessions.long.look import look_at
    from halo.sessions.long.window import window_of
    from halo.sessions.long.window_text import window_lines

    if choice.folder is not None:
        window = look_at(desk.builder, choice.folder)
    else:
        window = window_of(artifact_of(desk, choice, sender), conversation_of(choice))
    lines = window_lines(window, detail=command.rest.lower() == "detail")
    return Done(
        choice, answer=Answer.of(command.name, choice, "\n".join(lines), **msgspec.to_builtins(window))
    )


def _begin_anew(desk: Desk, command: Command, choice: Choice, message: Incoming) -> Done:
    """End the session by the user's wish; what stands behind the command is the first message of the next."""
    model, rest = _model_and_rest(desk, command, choice.target.agent)
    reset = due(desk, choice)
    inputs = {**reset.inputs, "trigger": command.word}
    ended = choice.folder.id if choice.folder is not None else ""
    choice = roll_over(desk, choice, command.word, inputs, model)
    assert choice.folder is not None  # noqa: S101  # it has just been begun
    kept = f"; {ended} is kept" if ended else ""
    notice = f"a new session begins, {choice.folder.id} ({command.word}){kept}"
    if rest:
        return Done(choice, msgspec.structs.replace(message, text=rest), notices=(notice,))
    internal = Sender("internal", access=message.sender.access)
    greeting = Incoming(FORMAT, secrets.token_hex(16), timestamp(desk.now_ns()), GREETING, internal)
    return Done(choice, greeting, notices=(notice,))


def _model_and_rest(desk: Desk, command: Command, agent: str) -> tuple[str, str]:
    """Tell a model's name from the beginning of a message.

    Before a message only a whole name is one; alone a part of a name is enough, if it is of one model.
    """
    first, rest = (*command.rest.split(maxsplit=1), "", "")[:2]
    if command.name != "new" or not first:
        return "", command.rest
    try:
        return profile_named(desk.tree, first, agent, whole=bool(rest) or len(first) < _SHORTEST), rest
    except UnknownNameError:
        return "", command.rest
    except UsageError:  # several have it in their names
        if rest or len(first) < _SHORTEST:
            return "", command.rest
        raise
