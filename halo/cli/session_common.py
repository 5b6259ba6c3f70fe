"""What the commands of `halo session` share: the sessions of a workspace, and how things are written."""

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from halo.errors import HaloError, UsageError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import datetime

    from halo.sessions.folder import SessionFolder
    from halo.sessions.keeping.listing import Entry, View

_UNITS = ((60.0, 1.0, "s"), (3_600.0, 60.0, "min"), (172_800.0, 3_600.0, "h"))
_DAY = 86_400.0


def open_view(workspace: str | None) -> "View":
    """Find the workspace and look at its sessions as they are now; broken settings are told of."""
    import datetime as dt

    from halo.files.seal import machine_key
    from halo.sessions.find import sessions_folder
    from halo.sessions.keeping.archived import MINUTES
    from halo.sessions.keeping.listing import View
    from halo.workspace.places import find_places
    from halo.workspace.settings.general import read_general

    places = find_places(workspace or os.getcwd(), os.environ)
    try:
        minutes: float = read_general(places.tree()).session.delegation.archive_minutes
    except HaloError as error:
        click.echo(f"warning: {error}", err=True)
        minutes = MINUTES
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    return View(sessions_folder(places.halo), places.home, machine_key(places.home), now, minutes)


def named(view: "View", session: str) -> "SessionFolder":
    """Find the session with an id or a key."""
    from halo.sessions.keeping.naming import named_session

    return named_session(view.sessions, view.home, session)


def age(view: "View", stamp: str) -> str:
    """Say how long ago something was, in one unit."""
    import datetime as dt

    try:
        then: datetime = dt.datetime.fromisoformat(stamp)
        seconds = max(0.0, (view.now - then).total_seconds())
    except (ValueError, TypeError):
        return "?"
    for below, unit, name in _UNITS:
        if seconds < below:
            return f"{int(seconds / unit)} {name}"
    return f"{int(seconds / _DAY)} d"


def state_of(entry: "Entry") -> str:
    """Say in a word how a session stands."""
    return "archived" if entry.archived and entry.status != "running" else entry.status


def remarks_of(entry: "Entry") -> str:
    """Say what a user should know of a session beside that."""
    remarks = [
        f"{entry.waiting} waiting" if entry.waiting else "",
        "last turn broke off" if entry.aborted_last_run and entry.status == "idle" else "",
        "begun elsewhere" if entry.foreign else "",
    ]
    return ", ".join(remark for remark in remarks if remark)


def columns(rows: "Sequence[tuple[str, ...]]", *, right: "Container[int]" = ()) -> list[str]:
    """Write rows as columns, those of the numbers `right` to the right; the last one is as long as it is."""
    if not rows:
        return []

    def put(column: int, cell: str, width: int) -> str:
        return cell.rjust(width) if column in right else cell.ljust(width)

    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    padded = (
        "  ".join([*(put(n, row[n], width) for n, width in enumerate(widths)), row[-1]]) for row in rows
    )
    return [line.rstrip() for line in padded]


def count(number: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Write a number of bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return count(number, "byte")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask, unless the answer was given on the command line. Raises `UsageError` where nobody is there."""
    if not yes and not sys.stdin.isatty():
        raise UsageError("nobody is here to ask", hint="-y says yes to it")
    return yes or click.confirm(question, err=True)


def as_json(document: Any) -> str:
    """Write a document for programs."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
