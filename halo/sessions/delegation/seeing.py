"""Which sessions a turn may see and reach, and how they stand."""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from halo.errors import BusyError, HaloError, LogError
from halo.files.seal import machine_key
from halo.records.headers import Header
from halo.records.session_events import SessionChanged
from halo.records.targets import Access
from halo.sessions.derived import read_header
from halo.sessions.find import session_seal
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.index.lookup import headers, headers_of_run
from halo.sessions.keeping.archived import is_archived
from halo.sessions.routing.callers import Caller, Visibility, find_visible
from halo.sessions.routing.finding import is_held
from halo.sessions.routing.known import Known
from halo.tools.base import ToolFailure
from halo.workspace.settings.delegation import DelegationSettings


class Seeing:
    """The view of the turn of `session` with `access`.

    It is of its run, or of the workspace, as the settings say; below `full` of what it started itself. `home`
    is Halo's home, which knows what was begun here.
    """

    def __init__(
        self, sessions: str, home: str, session: OpenSession, access: Access, settings: DelegationSettings
    ) -> None:
        self._sessions, self._session, self._settings = sessions, session, settings
        self._key = machine_key(home)
        self._visibility: Visibility = settings.visibility if access == "full" else "spawned"

    def headers(self) -> Iterator[Header]:
        """Yield the sessions that may be seen, this one included."""
        found = self._own()
        if self._visibility == "workspace":
            yield from found
            return
        known = [_known(header) for header in found]
        caller = self._caller()
        for header in found:
            try:
                find_visible(header.id, caller, known)
            except HaloError:
                continue
            yield header

    def find(self, named: str, *, below: bool = False) -> SessionFolder:
        """Return the session with this id or key; with `below` only one that was started from here.

        Raises `ToolFailure`, which repeats nothing that was not asked for.
        """
        caller = self._caller()
        if below:
            caller = caller._replace(visibility="spawned")
        try:
            found = find_visible(named, caller, [_known(header) for header in self._own()])
        except HaloError as error:
            raise ToolFailure(f"{error.message}" + (f"; {error.hint}" if error.hint else "")) from None
        if below and found.id == self._session.folder.id:
            raise ToolFailure("this is your own session; your answer ends it")
        return SessionFolder(self._sessions, found.id)

    def below(self, session_id: str) -> list[str]:
        """Return the ids of everything below a session."""
        children: dict[str, list[str]] = {}
        for header in self._own():
            children.setdefault(header.parent, []).append(header.id)
        found, todo = [], [session_id]
        while todo:
            below = children.get(todo.pop(), [])
            found.extend(below)
            todo.extend(below)
        return found

    def archived(self, header: Header, now: datetime) -> bool:
        """Tell whether a session is put away: by somebody, or because its report is long since given."""
        return is_archived(header, now, self._settings.archive_minutes)

    def is_archived(self, folder: SessionFolder, now: datetime) -> bool:
        """Tell the same of a folder."""
        try:
            header = read_header(folder)
        except LogError:
            return False
        return header is not None and self.archived(header, now)

    def runs(self, header: Header, here: Collection[str]) -> bool:
        """Tell whether a turn runs in a session: in this process, or in one that has its lock."""
        if header.id in here:
            return True
        # A turn without an end is one that runs elsewhere, or one whose process died.
        unended = bool(header.turns) and not header.ended
        return unended and is_held(SessionFolder(self._sessions, header.id))

    def archive(self, session_id: str, now_ns: Callable[[], int], by: str) -> None:
        """Put a session away. Raises `ToolFailure` for one that runs elsewhere."""
        try:
            with SessionFolder(self._sessions, session_id).open(now_ns) as session:
                session.append(SessionChanged("archived", "yes", by))
        except BusyError as error:
            raise ToolFailure(f"session {session_id} still runs: {error.message}") from None
        except LogError as error:
            raise ToolFailure(f"session {session_id} cannot be archived: {error.message}") from None

    def _own(self) -> list[Header]:
        """Return the sessions that may be seen, or stand beside one that may, and were begun on this machine.

        What came with the folder is a stranger's.
        """
        key, created = self._key, self._session.conversation.created
        root = (created.root if created is not None else "") or self._session.folder.id
        everywhere = self._visibility == "workspace"
        found = headers(self._sessions) if everywhere else headers_of_run(self._sessions, root)
        return [h for h in found if key is not None and h.seal == session_seal(key, h.id)]

    def _caller(self) -> Caller:
        created = self._session.conversation.created
        agent = created.target.agent if created is not None else ""
        return Caller(self._session.folder.id, agent, self._visibility)


def _known(header: Header) -> Known:
    return Known(
        id=header.id,
        key=header.key,
        started_at=header.created_at,
        interacted_at=header.interacted_at,
        successor=header.successor,
        parent=header.parent,
        root=header.root,
        settings=header.settings,
        origin=header.source,
    )
