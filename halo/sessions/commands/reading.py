"""Decides whether a message is one of Halo's commands: once, on what a person typed. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from halo.errors import UsageError, near_miss_hint
from halo.records.incoming import Sender
from halo.sessions.commands.table import COMMANDS, Spec, may
from halo.sessions.routing.inbound import Inbound
from halo.sessions.routing.reset import find_trigger

_COMMAND = re.compile(r"/(?P<name>[A-Za-z]+)(?:\s+(?P<rest>.*))?\Z", re.DOTALL)

AS_TEXT = "a space before it sends it as text"

# Commands that begin a session do so only as triggers of the settings.
_BEGINNING = frozenset({"new", "reset"})


class Command(NamedTuple):
    """A command: its name in `COMMANDS`, the word that was typed, and what stands behind it."""

    name: str
    word: str
    rest: str

    @property
    def spec(self) -> Spec:
        """What is known of the command."""
        return COMMANDS[self.name]


def read_command(text: str, sender: Sender, triggers: Sequence[str]) -> Command | None:
    """Return the command that a message is; None for any other message.

    Only a user's message is looked at, and one that begins with white space is text. `triggers` are the
    words that begin a session. Raises `UsageError` for a command that the sender may not use, or with
    something behind it that it does not take: neither ever reaches a model.
    """
    if sender.kind != "user" or not text[:1].strip():
        return None
    command = _trigger(text, triggers) or _named(text)
    if command is None:
        return None
    spec = command.spec
    if not may(sender, spec.right):
        whose = "the owner of the session" if spec.right == "owner" else "those who may change something here"
        raise UsageError(f"{command.word} is for {whose}", hint="/help shows the commands that you may use")
    _check(command)
    return command


def _trigger(text: str, triggers: Sequence[str]) -> Command | None:
    found = find_trigger(triggers, Inbound("cli", text=text, authorised=True))
    if found is None:
        return None
    return Command("new" if found.word.casefold() == "/new" else "reset", found.word, found.rest)


def _named(text: str) -> Command | None:
    match = _COMMAND.match(text)
    name = match["name"].lower() if match is not None else ""
    if match is None or name not in COMMANDS or name in _BEGINNING:
        return None
    return Command(name, f"/{name}", (match["rest"] or "").strip())


def _check(command: Command) -> None:
    spec, rest = command.spec, command.rest
    if not spec.argument and rest:
        raise UsageError(f"{command.word} takes nothing behind it", hint=AS_TEXT)
    if spec.words and rest and rest.lower() not in spec.words:
        known = ", ".join(spec.words)
        near = near_miss_hint(rest, list(spec.words))
        raise UsageError(f"{command.word} takes one of {known}", hint=near or AS_TEXT)
