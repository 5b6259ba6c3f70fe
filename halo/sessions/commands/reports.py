"""What `/help` and `/status` say."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from halo.errors import HaloError
from halo.files.visible import visible
from halo.records.artifacts import Artifact
from halo.records.incoming import Sender
from halo.runner.budgets import Ledger
from halo.sessions.access import allow, least
from halo.sessions.choice import Choice
from halo.sessions.commands.table import COMMANDS, may
from halo.sessions.desk import Desk
from halo.sessions.folder import SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.inbox.folder import Inbox
from halo.sessions.routing.finding import is_held
from halo.sessions.spending import spent_of
from halo.sessions.status import figures_of, status_text
from halo.sessions.thinking import with_thinking
from halo.workspace.models.naming import SINGLE
from halo.workspace.settings.general import read_general

_NARROWEST = 12  # columns of the left side of a list
_NAMES = ("thinking", "verbose", "send")


class Row(NamedTuple):
    """A line of `/help`: what is typed, and what it does."""

    usage: str
    summary: str


def artifact_of(desk: Desk, choice: Choice, sender: Sender) -> Artifact:
    """Get what the next message of `sender` would run from, the settings of the session included."""
    settings = settings_of(choice)
    target = choice.target
    profile = target.profile or settings.get("model", "")
    asked = msgspec.structs.replace(target, access=least(target.access, sender.access), profile=profile)
    allowed = allow(desk.builder, desk.tree, desk.grants(), asked)
    return with_thinking(desk.builder.ensure(allowed.target), settings.get("thinking", ""))


def settings_of(choice: Choice) -> dict[str, str]:
    """Return what is set for the chosen session; nothing for one that is not begun."""
    return conversation_of(choice).standing.settings


def conversation_of(choice: Choice) -> Conversation:
    """Read the chosen session; an empty one where it is not begun."""
    return choice.folder.read() if choice.folder is not None else Conversation()


def help_rows(desk: Desk, choice: Choice, sender: Sender) -> list[Row]:
    """Return the commands that `sender` may use: Halo's, other words that begin a session, skills."""
    triggers = read_general(desk.tree).session.reset_triggers
    words = {word.casefold() for word in triggers}
    rows = [
        Row(f"/{spec.name} {spec.argument}".strip(), spec.summary)
        for spec in COMMANDS.values()
        if may(sender, spec.right) and (spec.name not in ("new", "reset") or f"/{spec.name}" in words)
    ]
    if may(sender, COMMANDS["reset"].right):
        own = COMMANDS["reset"]
        rows += [
            Row(f"{word} {own.argument}", own.summary)
            for word in triggers
            if word.casefold() not in ("/new", "/reset")
        ]
    return rows + [
        Row(f"/{skill} [ARGUMENTS]", summary) for skill, summary in skill_rows(desk, choice, sender)
    ]


def skill_rows(desk: Desk, choice: Choice, sender: Sender) -> list[tuple[str, str]]:
    """Return the skills that `sender` may invoke, and what they are for. Halo's own words come first."""
    artifact = artifact_of(desk, choice, sender)
    told = {skill.id: skill.description for skill in artifact.manifest.skills}
    return [
        (command.id, " ".join(told.get(command.id, "a skill for users").split()))
        for command in artifact.manifest.commands
        if not command.refused and command.id.lower() not in COMMANDS
    ]


def help_text(rows: Sequence[Row]) -> str:
    """Write the rows in two columns."""
    width = max(_NARROWEST, *(len(row.usage) for row in rows))
    return "\n".join(visible(f"{row.usage:{width}}  {row.summary}") for row in rows)


def status(desk: Desk, choice: Choice, sender: Sender) -> tuple[str, dict[str, Any]]:
    """Return the state of the chosen session, as lines and as values."""
    conversation = conversation_of(choice)
    artifact = artifact_of(desk, choice, sender)
    ledger = Ledger("run", artifact.runtime.budgets.run, time.monotonic, spent=spent_of(conversation))
    figures = figures_of(conversation, artifact.runtime, ledger)
    facts = _facts(choice, conversation, artifact)
    lines = [f"{name}: {text}" for name, text in facts.items() if text]
    text = status_text(figures, datetime.fromtimestamp(desk.now_ns() / 1e9, UTC), desk.zone_name())
    values = {**facts, "figures": msgspec.to_builtins(figures)}
    return visible_lines([*lines, *text.split("\n")]), values


def visible_lines(lines: Sequence[str]) -> str:
    """Join lines in which nothing acts on a terminal."""
    return "\n".join(visible(line) for line in lines)


def _facts(choice: Choice, conversation: Conversation, artifact: Artifact) -> dict[str, str]:
    created, settings = conversation.created, conversation.standing.settings
    folder, binding = choice.folder, artifact.runtime.binding
    waiting = Inbox(folder.path).count() if folder is not None else 0
    return {
        "name": folder.id if folder is not None else "none yet; the next message begins one",
        "key": created.key if created is not None else "",
        "agent": choice.target.agent,
        "state": _state(folder, conversation),
        "model": f"{binding.provider}/{binding.model}" + _chosen(choice, settings),
        **{name: settings.get(name, "inherit") for name in _NAMES},
        "waiting": f"{waiting:,} messages" if waiting != 1 else "1 message",
        "previous": created.previous if created is not None else "",
        "parent": created.parent if created is not None else "",
        "children": ", ".join(_child(choice.sessions, child) for child in conversation.standing.children),
    }


def _chosen(choice: Choice, settings: dict[str, str]) -> str:
    profile = choice.target.profile or settings.get("model", "")
    if not profile:
        return ""
    where = "for this turn" if choice.target.profile else "for this session"
    return f" ({'chosen' if profile.startswith(SINGLE) else f'profile {profile}'} {where})"


def _state(folder: SessionFolder | None, conversation: Conversation) -> str:
    if folder is not None and is_held(folder):
        return "a turn runs"
    if conversation.standing.stopped:
        return "stopped"
    return "idle"


def _child(sessions: str, child: str) -> str:
    folder = SessionFolder(sessions, child)
    if not folder.exists():
        return f"{child} (gone)"
    try:
        report = folder.read().standing.report
    except HaloError:
        return f"{child} (cannot be read)"
    return f"{child} ({report.status if report else 'runs' if is_held(folder) else 'waits'})"
