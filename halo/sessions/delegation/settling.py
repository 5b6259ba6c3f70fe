"""After a turn, and when a session has nothing left to do: whoever waits for word of it gets it, once.

Each message has an id that follows from the session and its turn, is put into the inbox of the other, and is
then written down here (`report.sent`). A crash between any two steps is made good by whoever opens the
session next: it finds what is due, puts it again, and the other session takes it once.
"""

import shutil
from typing import NamedTuple

from halo.errors import HaloError
from halo.records.events import ReportSent
from halo.records.incoming import FORMAT, Incoming, Sender, Source
from halo.sessions.delegation.answers import exchange_with
from halo.sessions.delegation.reports import (
    REPLY_SKIP,
    announcement,
    answer_of,
    final_text,
    report_of,
    status_of,
)
from halo.sessions.desk import Desk
from halo.sessions.find import sessions_folder
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.ids import month_of, timestamp
from halo.sessions.inbox.folder import Inbox

ANSWERED = "answered"  # whoever asked waited for it, and has it as the result of the call


class Settled(NamedTuple):
    """The sessions that have something in their inboxes now."""

    wake: tuple[str, ...] = ()


def settle_turn(desk: Desk, session: OpenSession, asked: set[str], most: int) -> Settled:
    """Answer the sessions whose messages the last turn took.

    `asked` are ids of messages whose senders wait for the answer in this process: theirs is the result of a
    call. A parent hears by report. Others get a message, until they have exchanged `most` of them, or one
    says `REPLY_SKIP`; then the session that was asked first may tell its channel of it.
    """
    conversation = session.conversation
    created = conversation.created
    text = final_text(conversation)
    wake: list[str] = []
    for source in conversation.standing.sources:
        sender = source.sender
        if sender.kind != "agent" or not sender.session or created is None:
            continue
        if source.id in asked:
            session.append(ReportSent(sender.session, source.id, ANSWERED))
            continue
        if sender.session == created.parent:
            continue
        if text and text != REPLY_SKIP and source.rounds < most:
            answer = answer_of(
                session.folder.id,
                created.target.agent,
                text,
                conversation.turn,
                at=timestamp(desk.now_ns()),
                to=sender.session,
                rounds=source.rounds + 1,
                access=created.target.target().access,
            )
            wake.extend(_put(desk, session, sender.session, answer))
        elif most:
            wake.extend(_announce(desk, session, source))
    return Settled(tuple(wake))


def settle_end(desk: Desk, session: OpenSession) -> Settled:
    """Report to the parent when nothing is left to do here, and remove children that were to go.

    Not before all children have been heard: the last of them wakes this session once more.
    """
    _remove_children(desk, session)
    conversation, standing = session.conversation, session.conversation.standing
    created = conversation.created
    if created is None or not created.parent or not conversation.turn or conversation.open_turn:
        return Settled()
    if standing.report_turn >= conversation.turn or standing.answered:
        return Settled()
    if not standing.stopped and not _quiet(desk, session):
        return Settled()
    transcript = f".halo/sessions/{month_of(session.folder.id)}/{session.folder.id}/transcript.md"
    report = report_of(
        session.folder.id,
        conversation,
        at=timestamp(desk.now_ns()),
        transcript=transcript,
        title=standing.settings.get("title", ""),
    )
    return Settled(tuple(_put(desk, session, created.parent, report)))


def _quiet(desk: Desk, session: OpenSession) -> bool:
    """Tell whether nothing is left to do: no message starts a turn, and no child is still to report."""
    waiting = [w.message for w in Inbox(session.folder.path).waiting()[0]]
    if any(not message.quiet for message in waiting):
        return False
    told = {message.sender.session for message in waiting if message.sender.kind == "report"}
    return set(unsettled_children(desk, session)) <= told


def unsettled_children(desk: Desk, session: OpenSession) -> list[str]:
    """Return the children that have not been heard of: they run, or something died before they reported."""
    standing = session.conversation.standing
    sessions = sessions_folder(desk.builder.places.halo)
    return [
        child
        for child in standing.children
        if child not in standing.heard and SessionFolder(sessions, child).exists()
    ]


def _put(desk: Desk, session: OpenSession, to: str, message: Incoming) -> list[str]:
    """Put a message into the inbox of another session, and write that down. One that is gone gets none."""
    folder = SessionFolder(sessions_folder(desk.builder.places.halo), to)
    if folder.exists():
        # No bound: what was asked for must arrive.
        Inbox(folder.path).put(message, desk.now_ns(), bound=None)
    session.append(ReportSent(to, message.id, status_of(session.conversation)))
    return [to] if folder.exists() else []


def _announce(desk: Desk, session: OpenSession, source: Source) -> list[str]:
    """Let the session that was asked first tell its channel what came of an exchange that is over."""
    sessions = sessions_folder(desk.builder.places.halo)
    other = source.sender.session
    # The one that began has the odd rounds.
    asked_first = source.rounds % 2 == 0
    here = SessionFolder(sessions, session.folder.id if asked_first else other)
    partner = other if asked_first else session.folder.id
    try:
        conversation = session.conversation if asked_first else here.read()
        origin = conversation.standing.origin
        if origin is None or not origin.provider:
            return []  # there is no channel to tell
        said = exchange_with(here, partner)
    except HaloError:
        return []
    now = desk.now_ns()
    text = announcement(said.request, said.first, said.latest, partner)
    name = f"announce:{session.folder.id}:{session.conversation.turn}:{other}"
    Inbox(here.path).put(Incoming(FORMAT, name, timestamp(now), text, Sender("event")), now, bound=None)
    return [here.id]


def _remove_children(desk: Desk, session: OpenSession) -> None:
    """Remove the folders of children that were started to be deleted, once their report is in the log."""
    standing = session.conversation.standing
    sessions = sessions_folder(desk.builder.places.halo)
    for child, started in standing.children.items():
        folder = SessionFolder(sessions, child)
        if started.cleanup == "delete" and child in standing.heard and folder.exists():
            with folder.open(desk.now_ns):  # nobody else is in it
                shutil.rmtree(folder.path)
