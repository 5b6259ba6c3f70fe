"""A session that this process holds: the messages that wait for it become turns, or history when it stops."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType

import msgspec

from halo.errors import HaloError, LogError
from halo.models.adapter import Notice
from halo.records.incoming import Incoming
from halo.records.session_events import SessionChanged
from halo.records.stops import Stop
from halo.records.targets import AgentTarget
from halo.runner.turn import TurnEvent
from halo.sessions.choice import Choice
from halo.sessions.derived import read_header, write_derived
from halo.sessions.desk import Desk
from halo.sessions.engine.delivering import delivering
from halo.sessions.engine.open_models import OpenModels
from halo.sessions.find import is_sealed
from halo.sessions.folder import OpenSession, SessionFolder
from halo.sessions.inbox.control import done_stopping, request_stop, stops, wanted_stop
from halo.sessions.inbox.folder import Inbox, starts_turn, together
from halo.sessions.inbox.marks import mark, unmark
from halo.sessions.long.compacting import compact_after
from halo.sessions.reply import Began, Reply
from halo.sessions.said import Said, message_of
from halo.sessions.turns import Aside, Prepared, prepare, take_turn, tell


class Holding:
    """An async context manager: within it the session is held, and its turns can be run.

    `own` are messages of the caller, who hears when they cannot be read; they come behind those that wait.
    A new session is begun only when its first turn can start. `stopped_children` are the sessions that were
    asked to stop with this one; `choice` is how the session is opened again. `ours`: the session was begun on
    this machine; one that came with the folder says nothing about others that anybody may act on.
    """

    def __init__(
        self,
        desk: Desk,
        choice: Choice,
        own: tuple[Incoming, ...],
        show_in: Callable[[str, TurnEvent | Began], None],
        *,
        frozen: bool,
    ) -> None:
        self._desk, self.choice, self._own = desk, choice, own
        self._show_in, self._frozen = show_in, frozen
        self._first: Prepared | None = None
        self._models = OpenModels(desk.adapter)
        self._session: OpenSession | None = None
        self._derived = -1  # up to which event the derived files are made
        self.stopped_children: list[str] = []
        self.ours = False

    async def __aenter__(self) -> OpenSession:
        try:
            for notice in self.choice.notices:
                self._show(Notice(notice))
            if self.choice.folder is None:
                self._first = self._prepare(self._own, frozenset())
            self._session = self.choice.open(self._desk.now_ns)
            self.choice = self.choice._replace(folder=self._session.folder, notices=())
            created = self._session.conversation.created
            home = self._desk.builder.places.home
            self.ours = created is not None and is_sealed(self._session.folder.id, created.seal, home)
            self._tell_damage()
        except BaseException:
            if self._session is not None:
                self._session.close()
            await self._models.close()
            raise
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._held
        try:
            self._derive()
            if kind is not None and self.waits():
                with suppress(OSError):
                    mark(self.choice.sessions, session.folder.id)
        finally:
            session.close()
            await self._models.close()

    async def turns(self, aside: Aside) -> AsyncGenerator[Reply, None]:
        """Run turns until nothing waits that may start one, and yield their replies."""
        session = self._held
        inbox = Inbox(session.folder.path)
        while True:
            unmark(self.choice.sessions, session.folder.id)
            waiting = self._waiting(inbox)
            stop = wanted_stop(session.folder.path)
            if stop is not None:
                stopped = {name: each for name, each in waiting.items() if stops(stop, name)}
                self._stop(stop, inbox, stopped)
                # What came later is a new beginning, and so is what the caller says now.
                waiting = {name: each for name, each in waiting.items() if name not in stopped}
            messages = [*waiting.values(), *self._own]
            if not self._wakes(messages):
                return
            batch = together(messages)
            ids = {message.id for message in batch}
            names = [name for name, message in waiting.items() if message.id in ids]
            waited = frozenset(waiting[name].id for name in names)
            prepared, self._first = self._first or self._prepare(batch, waited), None
            self._own = tuple(message for message in self._own if message.id not in ids)
            try:
                async with (
                    aside.place(prepared.equipment.artifact),
                    delivering(self._desk, session, batch, self._show) as show,
                ):
                    reply = await take_turn(
                        self._desk,
                        session,
                        prepared,
                        show,
                        recorded=partial(inbox.remove, names),
                        waited=frozenset(waiting) - frozenset(names),
                        aside=aside,
                    )
            finally:
                self._derive()
            yield reply
            await compact_after(self._desk, session, prepared, self._show, aside.ledger)
            self._derive()

    def waits(self) -> bool:
        """Tell whether a message waits that may start a turn."""
        session = self._held
        waiting, _ = Inbox(session.folder.path).waiting()
        standing = session.conversation.standing
        messages = [w.message for w in waiting if w.message.id not in standing.taken]
        if wanted_stop(session.folder.path) is not None:
            return True
        return self._wakes(messages)

    def _wakes(self, messages: Sequence[Incoming]) -> bool:
        """Tell whether a turn begins with these; what waits for an archived session waits on."""
        standing = self._held.conversation.standing
        if standing.archived and not self._own:
            return False
        return starts_turn(messages, stopped=bool(standing.stopped))

    @property
    def opened(self) -> bool:
        """Whether the session is, or was, held."""
        return self._session is not None

    @property
    def session_id(self) -> str:
        """The id of the session that is, or was, held."""
        return self._held.folder.id

    @property
    def _held(self) -> OpenSession:
        assert self._session is not None  # noqa: S101  # within the context
        return self._session

    def _show(self, event: TurnEvent | Began) -> None:
        self._show_in(self._session.folder.id if self._session is not None else "", event)

    def _prepare(self, messages: Sequence[Incoming], waited: frozenset[str]) -> Prepared:
        return prepare(
            self._desk,
            self._target(),
            messages,
            self._show,
            frozen=self._frozen,
            waited=waited,
            opened=self._models.get,
            thinking=self._setting("thinking"),
            pin=self._setting("pin"),
        )

    def _target(self) -> AgentTarget:
        """Return whom the turn is with: a model that was named for it, else the one set for the session."""
        target = self.choice.target
        if target.profile or self._session is None:
            return target
        return msgspec.structs.replace(target, profile=self._setting("model"))

    def _setting(self, name: str) -> str:
        """Return what is set for the session; a new one has nothing set."""
        return self._session.conversation.standing.settings.get(name, "") if self._session else ""

    def _waiting(self, inbox: Inbox) -> dict[str, Incoming]:
        """Return what waits, by file name; what is in the log already is taken away."""
        waiting, problems = inbox.waiting()
        for problem in problems:
            self._show(Notice(f"warning: {problem}; the message stays where it is"))
        taken = set(self._held.conversation.standing.taken)
        fresh: dict[str, Incoming] = {}
        for name, message in waiting:
            if message.id in taken:
                inbox.remove([name])
            else:
                taken.add(message.id)
                fresh[name] = message
        return fresh

    def _stop(self, stop: Stop, inbox: Inbox, waiting: dict[str, Incoming]) -> None:
        """Stop: what waits goes into the history, unanswered; the children stop, too."""
        session = self._held
        messages = [*waiting.values()]
        if messages:
            said = [Said(message.text, message.text) for message in messages]
            session.append(message_of(messages, said, {}))
            inbox.remove([*waiting])
        for child in session.conversation.standing.children if self.ours else ():
            folder = SessionFolder(self.choice.sessions, child)
            if _was_begun(folder):
                with suppress(FileNotFoundError):  # somebody deletes it now
                    request_stop(folder.path, stop)
                    self.stopped_children.append(child)
        session.append(SessionChanged("stopped", stop.by or "stopped", stop.by))
        done_stopping(session.folder.path)

    def _tell_damage(self) -> None:
        session = self._held
        damaged = session.conversation.damaged
        if damaged:
            more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
            what = "; ".join(damaged[:3])
            text = f"warning: session {session.folder.id} is damaged and goes on without: {what}{more}"
            self._show(Notice(text))

    def _derive(self) -> None:
        """Write the derived files. They can be made again at any time: no turn fails because of them."""
        session = self._held
        if not session.sound or self._derived == session.conversation.seq:
            return  # what an unsound log holds is unknown: the next one who opens the session derives them
        self._derived = session.conversation.seq
        try:
            write_derived(session)
        except (OSError, HaloError) as error:
            tell(self._show, f"warning: session.json and transcript.md are not up to date: {error}")


def _was_begun(folder: SessionFolder) -> bool:
    """Tell whether there is a session, and not what is left of one whose parent died when it began it."""
    try:
        header = read_header(folder)
    except LogError:
        return False  # nobody runs what cannot be read
    return header is not None and header.target is not None
