"""Changes how sessions are kept: their titles, and whether they are put away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from halo.errors import BusyError, UsageError
from halo.records.headers import Header
from halo.records.session_events import SessionChanged
from halo.sessions.derived import write_derived
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.folder import Inbox
from halo.sessions.inbox.marks import mark
from halo.sessions.keeping.archived import ARCHIVED
from halo.sessions.keeping.families import family

LONGEST_TITLE = 200  # characters
BY = "user"


def rename(folder: SessionFolder, title: str, now_ns: Callable[[], int]) -> str:
    """Set the title of a session and return it; an empty one takes it back, so that the first message is it.

    Raises `BusyError` while a turn runs, `UsageError`, `LogError`.
    """
    title = " ".join(title.split())
    if len(title) > LONGEST_TITLE:
        raise UsageError(f"a title has at most {LONGEST_TITLE} characters, and this one {len(title):,}")
    with folder.open(now_ns) as session:
        _change(session, "title", title)
    return title


def archive(sessions: str, top: Header, now_ns: Callable[[], int]) -> list[str]:
    """Put a session and everything below it away; return the ids of those that were not, yet.

    All or none: raises `BusyError` when a turn runs in one of them, or messages wait for it.
    """
    headers = [branch.header for branch in family(sessions, top)]
    with _held(sessions, headers, now_ns) as held:
        for session in held:
            _refuse_waiting(session)
        fresh = [s for s in held if not s.conversation.standing.settings.get(ARCHIVED)]
        for session in reversed(fresh):  # the top last: until then, all of it can be done again
            _change(session, ARCHIVED, "yes")
    return [session.folder.id for session in fresh]


def unarchive(sessions: str, top: Header, now_ns: Callable[[], int]) -> list[str]:
    """Take a session and everything below it out of the archive; return the ids of what was in there.

    What waits for them is taken again by whoever runs sessions. A session that an agent started goes back by
    itself when nothing new comes.
    """
    headers = [branch.header for branch in family(sessions, top)]
    with _held(sessions, headers, now_ns) as held:
        put_away = [s for s in held if s.conversation.standing.settings.get(ARCHIVED)]
        for session in put_away or held[:1]:
            _change(session, ARCHIVED, "")
    for session in put_away:
        if Inbox(session.folder.path).count():
            mark(sessions, session.folder.id)
    return [session.folder.id for session in put_away]


@contextmanager
def _held(sessions: str, headers: list[Header], now_ns: Callable[[], int]) -> Iterator[list[OpenSession]]:
    """Hold several sessions at once, so that none of them is set going in between."""
    with ExitStack() as stack:
        yield [stack.enter_context(SessionFolder(sessions, header.id).open(now_ns)) for header in headers]


def _refuse_waiting(session: OpenSession) -> None:
    count = Inbox(session.folder.path).count()
    if count:
        waits = "1 message waits" if count == 1 else f"{count} messages wait"
        raise BusyError(
            f"{waits} for session {session.folder.id}",
            hint="--stop takes them into the history, unanswered; halo worker --once answers them first",
        )


def _change(session: OpenSession, name: str, value: str) -> None:
    session.append(SessionChanged(name, value, BY), turn=0)
    write_derived(session)
