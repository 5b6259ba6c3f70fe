"""After a turn, and when a session has nothing left to do: whoever waits for word of it gets it, once.

Each message has an id that follows from the session and its turn, is put into the inbox of the other, and is
then written down here (`report.sent`). A crash between any two steps is made good by whoever opens the
session next: it finds what is due, puts it again, and the other session takes it once. Whoever had the same
as the result of a call does not take it at all (`answer.taken`).
"""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from halo.errors import BusyError, HaloError, LogError, UsageError
from halo.records.incoming import FORMAT, Incoming, Sender, Source
from halo.records.session_events import ChildRemoved, ReportSent
from halo.records.targets import Access
from halo.sessions.access import least
from halo.sessions.delegation.answers import Exchange, exchange_with
from halo.sessions.delegation.reports import (
    REPLY_SKIP,
    announcement,
    answer_id,
    answer_of,
    answer_text,
    report_of,
    status_of,
)
from halo.sessions.derived import read_header
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.history import Conversation
from halo.sessions.ids import month_of, timestamp
from halo.sessions.inbox.folder import Inbox, starts_turn
from halo.sessions.keeping.deleting import delete, plan
from halo.sessions.routing.finding import is_held
from halo.sessions.spending import used_of


class Settled(NamedTuple):
    """The sessions that have something in their inboxes now, and what could not be put there yet."""

    wake: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class _Out:
    """Puts messages into the inboxes of others, and collects whose."""

    def __init__(self, desk: Desk, session: OpenSession) -> None:
        self._desk, self._session = desk, session
        self._wake: list[str] = []
        self._problems: list[str] = []

    @property
    def settled(self) -> Settled:
        return Settled(tuple(self._wake), tuple(self._problems))

    def put(self, to: str, message: Incoming, status: str) -> None:
        """Put a message, and write that down; one that is gone gets none. What fails is due the next time."""
        folder = SessionFolder(sessions_folder(self._desk.builder.places.halo), to)
        there = bool(to) and folder.exists()
        if there:
            try:
                # No bound: what was asked for must arrive.
                Inbox(folder.path).put(message, self._desk.now_ns(), bound=None)
            except (OSError, HaloError) as error:
                self._problems.append(
                    f"session {to} cannot be told of session {self._session.folder.id}: {error}"
                )
                return
            self._wake.append(to)
        self._session.append(ReportSent(to if there else "", message.id, status))


def settle_turn(desk: Desk, session: OpenSession, most: int) -> Settled:
    """Answer the sessions whose messages the last turn took, unless that was done.

    A parent hears by report. Others get a message, until they have exchanged `most` of them, or one says
    `REPLY_SKIP` or nothing; then the session that was asked first may tell its channel of it.
    """
    conversation, out = session.conversation, _Out(desk, session)
    standing, created, ended = conversation.standing, conversation.created, conversation.ended
    if created is None or ended is None or conversation.open_turn:
        return out.settled
    if standing.stopped or ended.reason in ("stopped", "gave_way"):
        return out.settled  # nobody wants an answer; or it comes with the turn behind this one
    text = answer_text(conversation)
    for source in _askers(standing.sources):
        to = source.sender.session
        ids = (answer_id(session.folder.id, conversation.turn, to), _announcement_id(session, to))
        if to == created.parent or not standing.told.isdisjoint(ids):
            continue
        if text and text != REPLY_SKIP and source.rounds < most:
            answer = answer_of(
                session.folder.id,
                created.target.agent,
                text,
                conversation.turn,
                at=timestamp(desk.now_ns()),
                to=to,
                rounds=source.rounds + 1,
                access=_access(conversation),
            )
            out.put(to, answer, status_of(conversation))
        else:
            _announce(desk, session, source, text, out)
    return out.settled


def _askers(sources: tuple[Source, ...]) -> list[Source]:
    """Return one message of each session that has written: the one of the most rounds bounds the exchange."""
    found: dict[str, Source] = {}
    for source in sources:
        session = source.sender.session
        if source.sender.kind == "agent" and session:
            before = found.get(session)
            found[session] = source if before is None or source.rounds > before.rounds else before
    return [*found.values()]


def _access(conversation: Conversation) -> Access:
    """Return what a turn may do that follows from the last one here: no more than that one.

    Else somebody who may little could have a session that may more say what shall be done.
    """
    created = conversation.created
    own: Access = created.target.target().access if created is not None else "readonly"
    return least(own, *(source.sender.access for source in conversation.standing.sources))


def settle_end(desk: Desk, session: OpenSession) -> Settled:
    """Report to the parent when nothing is left to do here, and remove children that were to go.

    Not before all children have been heard: the last of them wakes this session once more.
    """
    _remove_children(desk, session)
    conversation, standing = session.conversation, session.conversation.standing
    created, out = conversation.created, _Out(desk, session)
    if created is None or not created.parent or not conversation.turn or conversation.open_turn:
        return out.settled
    if standing.report_turn >= conversation.turn:
        return out.settled
    if not standing.stopped and not _quiet(desk, session):
        return out.settled
    transcript = f".halo/sessions/{month_of(session.folder.id)}/{session.folder.id}/transcript.md"
    report = report_of(
        session.folder.id,
        conversation,
        at=timestamp(desk.now_ns()),
        transcript=transcript,
        access=_access(conversation),
        title=standing.settings.get("title", ""),
    )
    out.put(created.parent, report, status_of(conversation))
    return out.settled


def _quiet(desk: Desk, session: OpenSession) -> bool:
    """Tell whether nothing is left to do: no message starts a turn, and no child is still to report."""
    taken = session.conversation.standing.taken
    waiting = [w.message for w in Inbox(session.folder.path).waiting()[0] if w.message.id not in taken]
    return not starts_turn(waiting, stopped=False) and not unsettled_children(desk, session)


def unsettled_children(desk: Desk, session: OpenSession) -> list[str]:
    """Return the children that still owe a report: they run, or something died before they sent it."""
    sessions = sessions_folder(desk.builder.places.halo)
    children = (SessionFolder(sessions, child) for child in session.conversation.standing.children)
    return [child.id for child in children if _owes_report(child)]


def _owes_report(child: SessionFolder) -> bool:
    """Tell whether a turn of a child is not reported, or something waits for it.

    One that was never told what to do, because its parent died before, owes nothing; nor does one that nobody
    can run, because it is gone or its log cannot be read.
    """
    # In this order: a message leaves the inbox when it is in the log.
    waiting = [w.message for w in Inbox(child.path).waiting()[0]]
    try:
        header = read_header(child)
    except LogError:
        return False
    if header is None:
        return False
    return header.turns > header.reported or starts_turn(waiting, stopped="stopped" in header.settings)


def _announcement_id(session: OpenSession, other: str) -> str:
    return f"announce:{session.folder.id}:{session.conversation.turn}:{other}"


def _announce(desk: Desk, session: OpenSession, source: Source, text: str, out: _Out) -> None:
    """Let the session that was asked first tell its channel what came of an exchange that is over.

    `text` is what was said last, here. The message may do no more than either of the two.
    """
    sessions = sessions_folder(desk.builder.places.halo)
    other = source.sender.session
    # The one that began has the odd rounds.
    asked_first = source.rounds % 2 == 0
    here = SessionFolder(sessions, session.folder.id if asked_first else other)
    partner = other if asked_first else session.folder.id
    message = Incoming(
        FORMAT,
        _announcement_id(session, other),
        timestamp(desk.now_ns()),
        "",
        Sender("event", access=_access(session.conversation)),
    )
    origin, said = None, Exchange()
    with suppress(LogError):  # whoever is gone, or cannot be read, tells nobody
        origin = (session.conversation if asked_first else here.read()).standing.origin
        said = exchange_with(here, partner)
    if origin is None or not origin.provider or not said.request:
        out.put("", message, "no channel")
        return
    latest = text if text and not asked_first and text != REPLY_SKIP else said.latest
    message = msgspec.structs.replace(message, text=announcement(said.request, said.first, latest, partner))
    out.put(here.id, message, "announced")


def _remove_children(desk: Desk, session: OpenSession) -> None:
    """Remove children that were started to be deleted, once their last report is in the log.

    One that runs, that has something to do, or below which somebody has, stays until the next time.
    """
    standing = session.conversation.standing
    sessions = sessions_folder(desk.builder.places.halo)
    for child, started in standing.children.items():
        folder = SessionFolder(sessions, child)
        if started.cleanup != "delete" or child not in standing.heard or not folder.exists():
            continue
        with suppress(BusyError, UsageError, LogError):
            conversation = folder.read()
            deletion = plan(sessions, folder)
            unreported = conversation.standing.report_turn < conversation.turn
            if unreported or deletion.objections or any(is_held(each.folder) for each in deletion.doomed):
                continue
            used = [used_of(each.header) for each in deletion.doomed if each.header is not None]
            totals = (sum(column) for column in zip(*used, strict=True))
            session.append(ChildRemoved(child, *totals))  # first: what was used stays used
            delete(sessions, deletion, force=False)
