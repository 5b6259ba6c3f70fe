"""Forks sessions: a new one that goes on behind a turn of another, which stays as it is."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from halo.errors import LogError, UsageError
from halo.records.events import NAMES, Event, TurnEnded
from halo.records.targets import AgentTarget
from halo.sessions.exchange.laying import Beginning, lay_down
from halo.sessions.exchange.reading import Whole, folded, read_whole
from halo.sessions.folder import SessionFolder
from halo.sessions.reading import Unread

ORIGIN = FORK = "fork"
_ENDED = NAMES[TurnEnded]


class Forked(NamedTuple):
    """A fork: its folder, the last turn in it, and what of the other log is missing in it."""

    folder: SessionFolder
    turn: int
    missing: tuple[str, ...]


def fork(
    sessions: str, home: str, folder: SessionFolder, turn: int | None, now_ns: Callable[[], int]
) -> Forked:
    """Make a session of the turns of another up to `turn`, by default up to the last one that is over.

    It has copies of the events up to there, with what was set for the session; no children, no key, nothing
    in its inbox, and it has spent nothing. `home` is Halo's home. Raises `UsageError` for a turn that is not
    there or not over, `LogError` for a log that cannot be read or that a later version of Halo wrote to.
    """
    whole = read_whole(folder)
    _refuse_newer(whole)
    target = _target(whole)
    last = _last(whole.events, turn)
    found = _up_to(whole.found, last)
    events = [each for each in found if isinstance(each, Event)]
    beginning = Beginning(target, ORIGIN, folder.id, FORK, last)
    made = lay_down(sessions, home, now_ns, beginning, events)
    return Forked(made, last, tuple(folded(found).damaged))


def _refuse_newer(whole: Whole) -> None:
    if whole.newer:
        raise LogError(
            f"was written by a newer version of Halo: {whole.newer[0]}",
            file=whole.folder.events,
            hint="use the newer Halo to fork this session",
        )


def _target(whole: Whole) -> AgentTarget:
    written = whole.header.target
    if written is None:
        raise LogError(
            "its first event, which says whom the session is with, is damaged",
            file=whole.folder.events,
            hint="halo session export and import -a AGENT make a session of what is left",
        )
    try:
        return written.target()
    except msgspec.ValidationError as error:
        raise LogError(
            f"was begun by a newer version of Halo: {error}",
            file=whole.folder.events,
            hint="use the newer Halo to fork this session",
        ) from error


def _last(events: tuple[Event, ...], turn: int | None) -> int:
    """Return the turn to fork behind."""
    newest = max((event.turn for event in events), default=0)
    # The end of a turn may be lost; that another one follows says the same.
    over = {event.turn for event in events if event.type == _ENDED or event.turn < newest} - {0}
    if turn is None:
        if not over:
            raise UsageError("no turn of this session is over yet", hint="there is nothing to go on from")
        return max(over)
    if not 1 <= turn <= newest:
        raise UsageError(f"there is no turn {turn}", hint=f"turns of this session: 1 to {newest}")
    if turn not in over:
        raise UsageError(f"turn {turn} is not over", hint="without --turn the last one that is over is taken")
    return turn


def _up_to(found: Iterable[Event | Unread], last: int) -> list[Event | Unread]:
    """Return what stands before the first event of a later turn."""
    kept: list[Event | Unread] = []
    for each in found:
        event = each.event if isinstance(each, Unread) else each
        if event is not None and event.turn > last:
            break
        kept.append(each)
    return kept
