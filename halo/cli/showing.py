"""What `halo run` shows of a turn: words on stdout and everything else on stderr, or lines of JSON."""

import sys
from typing import TYPE_CHECKING

import click

from halo.cli.markdown_stream import safe
from halo.files.visible import visible

if TYPE_CHECKING:
    from halo.records.events import MessageAdded, ToolResultAdded
    from halo.records.messages import ToolCall, ToolResult
    from halo.runner.turn import TurnEvent
    from halo.sessions.reply import Began

_LONGEST = 100  # characters of what a call was about
_LONGEST_REASON = 200  # characters of why it failed
_MOST_LINES = 12  # of a result, and of what the model thought

# The argument that says what a call is about, for tools that have one.
_ABOUT = ("command", "path", "pattern", "url", "skill_id", "agent_id", "message")


class Progress:
    """Follows a turn. `words`: the answer is printed as it comes, and each message ends its line.

    On a terminal nothing in it acts. `following` says the rest.
    """

    def __init__(self, *, words: bool) -> None:
        self._words = words
        self.following = Following()

    def show(self, event: "TurnEvent | Began") -> None:
        """Show an event."""
        from halo.models.adapter import TextDelta
        from halo.records.events import MessageAdded

        if self._words and isinstance(event, TextDelta):
            sys.stdout.write(safe(event.text) if sys.stdout.isatty() else event.text)
            sys.stdout.flush()
        if self._words and isinstance(event, MessageAdded):
            text = event.message.text
            if text and not text.endswith("\n"):
                sys.stdout.write("\n")
                sys.stdout.flush()
        for line in self.following.lines(event):
            _tell(safe(line))


class Following:
    """Follows a turn and says in lines what happens beside the words of the answer.

    `verbose` as it is set for the session: `off` leaves tools out, `on` adds their results and what the model
    thought.
    """

    def __init__(self) -> None:
        self.verbose = ""
        self._calls: dict[str, ToolCall] = {}
        self._said = False  # since the last message

    def lines(self, event: "TurnEvent | Began") -> list[str]:
        """Return what an event has to say."""
        from halo.models.adapter import Notice, Retrying, TextDelta
        from halo.records.events import ContextShortened, MessageAdded, Repaired, ToolResultAdded

        match event:
            case TextDelta():
                self._said = True
            case MessageAdded():
                self._calls.update((call.id, call) for call in event.message.calls)
                self._said = False
                return _thoughts(event) if self.verbose == "on" else []
            case Notice():
                return [event.text]
            case ToolResultAdded():
                return self._tool(event)
            case Retrying():
                void = "; what was said since the last step is void" if self._said else ""
                self._said = False
                return [f"{event.reason}: trying again in {event.seconds:.1f} s{void}"]
            case ContextShortened():
                tokens = f"about {event.tokens_before:,} tokens to {event.tokens_after:,}"
                return [f"the conversation was shortened ({event.strategy}): {tokens}"]
            case Repaired(kind="arguments"):
                return [f"repaired the arguments of a call of {event.tool}"]
            case _:
                pass
        return []

    def _tool(self, event: "ToolResultAdded") -> list[str]:
        if self.verbose == "off":
            return []
        about = _about(self._calls.get(event.result.call_id))
        mark = f"failed: {_reason(event.result, event.tool)}" if event.result.is_error else "done"
        lines = [f"tool    {event.tool}{about} ({event.duration_ms} ms) {mark}"]
        return lines + (_quoted(event.result.text) if self.verbose == "on" else [])


def _thoughts(event: "MessageAdded") -> list[str]:
    from halo.records.messages import Thinking

    text = "\n".join(b.text for b in event.message.content if isinstance(b, Thinking) and b.text)
    return ["thought", *_quoted(text)] if text else []


def _quoted(text: str) -> list[str]:
    """Return the first lines of a text, and how many more there are."""
    lines = text.splitlines()
    more = len(lines) - _MOST_LINES
    shown = [f"  | {visible(line)[:_LONGEST_REASON]}" for line in lines[:_MOST_LINES]]
    return [*shown, f"  | [{more:,} more lines]"] if more > 0 else shown


def show_lines(event: "TurnEvent | Began") -> None:
    """Print an event as a line of JSON (docs/reference/streams.md)."""
    from halo.runner.event_lines import event_line
    from halo.sessions.reply import Began

    if isinstance(event, Began):
        write_line("turn", event)
    else:
        _write(event_line(event))


def write_line(kind: str, record: object) -> None:
    """Print a record as a line of JSON of that type."""
    import msgspec

    from halo.runner.event_lines import line

    _write(line(kind, **msgspec.to_builtins(record)))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _about(call: "ToolCall | None") -> str:
    """Say what a call was about, in one line: its command, its path; else its arguments."""
    import msgspec

    if call is None:
        return ""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        arguments = call.arguments
    told = arguments
    if isinstance(arguments, dict):
        told = next((arguments[name] for name in _ABOUT if name in arguments), arguments)
    text = told if isinstance(told, str) else msgspec.json.encode(told).decode()
    line = " ".join(visible(text.replace("\n", " ⏎ ")).split())
    if line in ("", "{}"):
        return ""
    return f" {line}" if len(line) <= _LONGEST else f" {line[:_LONGEST]}…"


def _reason(result: "ToolResult", tool: str) -> str:
    """Return the line that says why: the last one of a command, which names its exit code."""
    lines = [line for line in result.text.splitlines() if line.strip()] or [""]
    return visible(lines[-1 if tool == "shell_exec" else 0])[:_LONGEST_REASON]
