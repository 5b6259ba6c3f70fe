"""How a session stands beside what was said in it: what was set, what it took from its inbox, its relatives.

A part of the fold of a session's log (`halo.sessions.history`). Pure.
"""

from typing import TYPE_CHECKING

from halo.records.events import (
    ContextShortened,
    EventData,
    MessageAdded,
    ToolResultAdded,
    TurnEnded,
    TurnStarted,
)
from halo.records.messages import Text
from halo.records.session_events import (
    AnswerTaken,
    ChildRemoved,
    ChildStarted,
    CompactionFailed,
    Delivered,
    DeliveryDue,
    MemoryFlushed,
    ReportSent,
    SessionChanged,
    SessionCreated,
    SessionRolledOver,
)
from halo.sessions.routing.carrying import copies_setting
from halo.sessions.routing.inbound import merged

if TYPE_CHECKING:
    from halo.records.incoming import Source
    from halo.records.origins import Origin
    from halo.records.outgoing import Outgoing

REPORT = "report:"  # how the ids of reports to a parent begin


class Standing:
    """What a session's log says of the session itself.

    `settings` is what was set and not taken back, by name. `taken` holds the ids of all messages that came
    out of the inbox, or would say what a call returned already. `interacted_at` is when a person wrote last
    (ISO 8601): what timers and other sessions write does not count. `children` are the sessions that were
    started from here, by id; `heard` those of whom a report was taken, or an answer, `removed` those that are
    gone, and what they used. `told` holds the ids of what was sent to others; `report` is the last report of
    this session, `report_turn` the turn before it.
    `origin` is where its messages come from now. `sources` are those of the last turn's message, and of the
    turn before where that gave way to it; `said` is the text of the model's last message in it, whatever the
    history is shortened to. `successor` is where messages of its key go since a rollover. `flushed`: notes
    were made, or skipped, since messages were last left out of the history; `failed_at` are its tokens when
    no summary could be made since. `due` are parts of replies of which nobody knows whether they arrived at a
    channel, by their ids, in order; `undelivered` those that were not sent for good.
    """

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.taken: set[str] = set()
        self.interacted_at = ""
        self.children: dict[str, ChildStarted] = {}
        self.heard: set[str] = set()
        self.removed: dict[str, ChildRemoved] = {}
        self.told: set[str] = set()
        self.report: ReportSent | None = None
        self.report_turn = 0
        self.origin: Origin | None = None
        self.sources: tuple[Source, ...] = ()
        self.said = ""
        self._gave_way = False
        self._returning: list[AnswerTaken] = []  # the call is not answered yet
        self.successor: SessionRolledOver | None = None
        self.flushed = False
        self.failed_at = 0
        self.due: dict[str, Outgoing] = {}
        self.undelivered: dict[str, Outgoing] = {}

    @property
    def stopped(self) -> str:
        """Why it was stopped; empty where it was not, or a message has set it going again."""
        return self.settings.get("stopped", "")

    @property
    def archived(self) -> bool:
        """Whether somebody has put it away."""
        return bool(self.settings.get("archived"))

    def add(self, data: EventData, ts: str, turn: int) -> None:
        """Take in what one event, recorded at `ts` in `turn`, says."""
        match data:
            # The most frequent ones first: a log has a hundred thousand of them.
            case MessageAdded():
                self._message(data, ts)
            case TurnStarted():
                self.settings.pop("stopped", None)
                self.said = ""
            case ToolResultAdded():
                self._result(data)
            case TurnEnded():
                self._gave_way = data.reason == "gave_way"
            case SessionChanged():
                if data.value:
                    self.settings[data.name] = data.value
                else:
                    self.settings.pop(data.name, None)
            case SessionCreated():
                self.origin = data.source
            case ChildStarted():
                self.children[data.session] = data
            case ChildRemoved():
                self.removed[data.session] = data
            case ReportSent():
                self.told.add(data.id)
                if data.id.startswith(REPORT):
                    self.report, self.report_turn = data, turn
            case AnswerTaken():
                self._returning.append(data)
            case SessionRolledOver():
                self.successor = data
            case DeliveryDue():
                self.due[data.message.id] = data.message
            case Delivered():
                self._delivered(data)
            case MemoryFlushed():
                self.flushed = True
            case CompactionFailed():
                self.failed_at = data.tokens
            case ContextShortened() if data.strategy != "prune":
                self.flushed, self.failed_at = False, 0

    def _delivered(self, data: Delivered) -> None:
        if data.state == "broken_off":
            return  # still due
        message = self.due.pop(data.id, None) or self.undelivered.pop(data.id, None)
        if message is not None and data.state in ("failed", "unsent"):
            self.undelivered[data.id] = message

    def add_copy(self, data: EventData, reason: str) -> None:
        """Take in what an event says that was copied from another session, for `reason` (fork, import).

        What was said and set; whom that session had started, asked or told is no matter of this one.
        """
        match data:
            case SessionChanged() if copies_setting(data.name, reason):
                self.add(data, "", 0)
            case MessageAdded():
                self._say(data)
            case TurnStarted() | MemoryFlushed() | CompactionFailed() | ContextShortened():
                self.add(data, "", 0)

    def _say(self, added: MessageAdded) -> None:
        if added.message.role == "assistant" and not added.internal:
            self.said = "".join(block.text for block in added.message.content if isinstance(block, Text))

    def _message(self, added: MessageAdded, ts: str) -> None:
        self.taken.update([source.id for source in added.sources])
        self._say(added)
        if added.message.role != "user" or added.internal:
            return
        self.sources = (*self.sources, *added.sources) if self._gave_way else added.sources
        self._gave_way = False
        self.heard.update(s.sender.session for s in added.sources if s.sender.kind == "report")
        # Logs of earlier versions name no sources: all of it was typed by a user.
        if not added.sources or any(source.sender.kind == "user" for source in added.sources):
            self.interacted_at = ts
        for source in added.sources:
            # What programs send changes nothing, so replies keep their way.
            if source.origin is not None and source.sender.kind == "user":
                self.origin = merged(self.origin, source.origin) if self.origin else source.origin

    def _result(self, added: ToolResultAdded) -> None:
        """Take in the result of a call: an answer that it returned is taken, unless nobody got to see it."""
        for answer in self._returning if not added.mended else ():
            self.taken.update(answer.ids)
            self.heard.add(answer.session)
        self._returning = []
