"""What a chat shows: finished blocks above the prompt, the block that still grows right over it, a footer."""

from collections.abc import Callable

import click

from halo.cli.markdown_stream import MarkdownStream, preview, rendered, safe
from halo.cli.showing import Following
from halo.files.visible import visible
from halo.models.adapter import Notice, Retrying, TextDelta
from halo.records.events import MessageAdded, ToolResultAdded, TurnEnded, UsageLost, UsageReported
from halo.runner.turn import TurnEvent
from halo.sessions.history import Conversation
from halo.sessions.reply import Began

_ROWS = 8  # of the terminal that are left to the prompt and what stands around it


class Screen:
    """Collects what is to be printed. `own` names the session that is talked in; `changed` is called on news.

    Nothing that a model, a tool or another session says acts on the terminal.
    """

    def __init__(self, own: Callable[[], str], width: Callable[[], int], changed: Callable[[], None]) -> None:
        self._own, self._width, self._changed = own, width, changed
        self._pending: list[str] = []
        self._stream = MarkdownStream()
        self._following = Following()
        self._others: dict[str, Began] = {}
        self._calls: dict[str, Following] = {}
        self.footer = Footer()

    def set_verbose(self, verbose: str) -> None:
        """Show as much as is set for the session."""
        self._following.verbose = verbose

    def take(self) -> str:
        """Return what is to be printed now, and forget it."""
        text, self._pending = "".join(self._pending), []
        return text

    def preview(self, rows: int) -> str:
        """Return what stands over the prompt: what is not printed yet, and the block that still grows."""
        text = "".join(self._pending) + preview(self._stream.rest, self._width(), max(1, rows - _ROWS))
        lines = text.split("\n")
        return "\n".join(lines[-max(1, rows - _ROWS) :])

    def line(self, text: str, *, dim: bool = True) -> None:
        """Print a line, or several."""
        for each in safe(text).split("\n"):
            self._pending.append(click.style(each, dim=True) + "\n" if dim else each + "\n")
        self._changed()

    def said(self, text: str, label: str) -> None:
        """Print what the user said."""
        head, *more = safe(text).split("\n")
        lines = [click.style(label, bold=True) + head, *(" " * len(label) + line for line in more)]
        self._pending.append("".join(f"{line}\n" for line in lines) + "\n")
        self._changed()

    def show(self, session: str, event: TurnEvent | Began) -> None:
        """Show an event of a session."""
        own = self._own()
        if session and own and session != own:
            self._show_other(session, event)
            return
        match event:
            case Began():
                self.over("")
                self.footer.began(event)
            case TextDelta():
                self._print(self._stream.add(event.text))
            case MessageAdded():
                self._print(self._stream.end())
            case Retrying():
                self._stream.end()
            case UsageReported() | UsageLost():
                self.footer.add(event)
        for line in self._following.lines(event):
            self.line(line)
        if isinstance(event, TurnEnded):
            self.over(event.reason)
        self._changed()

    def over(self, reason: str) -> None:
        """Take in that the turn is over; `reason` is empty where it is not known."""
        self._print(self._stream.end())
        if self.footer.running and reason not in ("", "done"):
            self.line(f"ended: {reason}")
        self.footer.running = False
        self._changed()

    def _show_other(self, session: str, event: TurnEvent | Began) -> None:
        """Show in short lines what another session does."""
        if isinstance(event, Began):
            self._others[session] = event
            self.line(f"  > {event.agent} begins ({session})")
            return
        began = self._others.get(session)
        who = began.agent if began is not None else session
        match event:
            case UsageReported() | UsageLost():
                self.footer.add(event)
            case TurnEnded():
                self.line(f"  > {who}: {event.reason}" + (f": {event.error}" if event.error else ""))
            case ToolResultAdded() | MessageAdded() | Notice():
                for line in self._calls.setdefault(session, Following()).lines(event):
                    self.line(f"  > {who}: {line}")

    def _print(self, markdown: str) -> None:
        if markdown.strip():
            self._pending.append(rendered(markdown, self._width()))


class Footer:
    """Who answers, and what the conversation has used."""

    def __init__(self) -> None:
        self.running = False
        self._agent = self._model = self._currency = self._session = ""
        self._sent = self._cached = self._produced = 0
        self._cost = 0.0

    def begin(self, agent: str, session: str, conversation: Conversation) -> None:
        """Count what a session has used before; `session` is empty where none is there yet."""
        usage = conversation.usage
        self._session = session
        self._agent, self._model = agent, conversation.model
        self._sent, self._cached, self._produced = usage.prompt, usage.read, usage.output
        self._cost, self._currency = conversation.cost, conversation.currency

    def began(self, event: Began) -> None:
        """Take in that a turn begins; that of another session begins the count."""
        if self._session not in ("", event.session):
            self._sent = self._cached = self._produced = 0
            self._cost = 0.0
        self._session = event.session
        self._agent, self.running = event.agent, True

    def add(self, event: UsageReported | UsageLost) -> None:
        """Count a call."""
        usage = event.usage
        self._model = event.model
        self._sent += usage.prompt
        self._cached += usage.read
        self._produced += usage.output
        self._cost += event.cost or 0.0
        self._currency = event.currency or self._currency

    def text(self, session: str, waiting: int) -> str:
        """Return the line."""
        share = f" ({self._cached / self._sent:.0%} cached)" if self._sent else ""
        parts = [
            self._agent,
            self._model,
            f"{self._sent:,} tokens in{share}, {self._produced:,} out",
            f"{self._cost:.4f} {self._currency}" if self._currency else "",
            session,
            f"{waiting} waiting" if waiting else "",
            "Ctrl-C stops" if self.running else "",
        ]
        return visible(" · ".join(part for part in parts if part))
