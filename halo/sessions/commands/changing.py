"""Commands that set something for a session: model, thinking, verbosity, sending."""

from halo.errors import UsageError
from halo.files.visible import visible
from halo.records.incoming import Sender
from halo.records.session_events import SessionChanged
from halo.sessions.choice import Choice
from halo.sessions.commands.answers import Answer, Done
from halo.sessions.commands.reading import Command
from halo.sessions.commands.reports import artifact_of, settings_of
from halo.sessions.commands.table import INHERIT
from halo.sessions.derived import write_derived
from halo.sessions.desk import Desk
from halo.workspace.models.naming import own_model, profile_named

# The name of the setting for each command.
_SETTINGS = {"model": "model", "think": "thinking", "verbose": "verbose", "send": "send"}

# `/send` says it for people; the setting is an action of the send policy.
_ACTIONS = {"on": "allow", "off": "deny"}


def change(desk: Desk, command: Command, choice: Choice, sender: Sender) -> Done:
    """Set what the command says, or tell what is set where it says nothing.

    Raises `UsageError` for a model that there is not, or that does not think; `BusyError` while a turn runs.
    """
    name = _SETTINGS[command.name]
    if not command.rest:
        return Done(choice, answer=_told(desk, command, choice, sender))
    value = _value(desk, command, choice, sender)
    with choice.open(desk.now_ns) as session:
        session.append(SessionChanged(name, value, sender.name or sender.kind), turn=0)
        write_derived(session)
    choice = choice._replace(folder=session.folder, notices=(), relation=None)
    return Done(choice, answer=_told(desk, command, choice, sender))


def _value(desk: Desk, command: Command, choice: Choice, sender: Sender) -> str:
    """Return what is stored; empty for what is inherited."""
    if command.rest.lower() == INHERIT:
        return ""
    if command.name == "model":
        return profile_named(desk.tree, command.rest, choice.target.agent)
    word = command.rest.lower()
    if command.name == "think" and word != "off":
        _check_thinks(desk, choice, sender)
    return _ACTIONS[word] if command.name == "send" else word


def _elsewhere(desk: Desk, choice: Choice, endpoint: str) -> str:
    """Say where a model is asked, if the agent's own one has an endpoint and this is another."""
    own = own_model(desk.tree, choice.target.agent)
    if not own.endpoint or endpoint == own.endpoint:
        return ""
    return f" at {visible(endpoint or 'its own endpoint')}, not at the agent's, {visible(own.endpoint)}"


def _check_thinks(desk: Desk, choice: Choice, sender: Sender) -> None:
    runtime = artifact_of(desk, choice, sender).runtime
    if runtime.capabilities.thinking is False or runtime.binding.provider == "local":
        raise UsageError(
            f"{runtime.binding.model} answers without thinking first", hint="/model NAME takes another one"
        )


def _told(desk: Desk, command: Command, choice: Choice, sender: Sender) -> Answer:
    name = _SETTINGS[command.name]
    value = settings_of(choice).get(name, "")
    shown = value or INHERIT
    if command.name == "model":
        runtime = artifact_of(desk, choice, sender).runtime
        shown = f"{runtime.binding.provider}/{runtime.binding.model}"
        shown += _elsewhere(desk, choice, runtime.binding.endpoint) if value else " (the agent's own)"
    return Answer.of(command.name, choice, f"{name}: {shown}", **{name: value or INHERIT})
