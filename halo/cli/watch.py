"""`halo watch`: keep every artifact fresh while the layers are written, one line for each that changed."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.cli.quick import reader_gone

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.build.watch.events import Built, Event, Failed
    from halo.records.differences import Difference
    from halo.records.targets import Target


@click.command("watch")
@workspace_option
def command(*, workspace: str | None) -> int:
    """Build what is stale, then build again what a change concerns, until Ctrl-C.

    One line for each artifact that changed: fingerprint, first changed segment with file and line, tokens
    added and removed. A target that fails keeps its old artifact. WATCHFILES_FORCE_POLLING=1 looks at the
    folders again and again, where the system cannot tell of changes.
    """
    return follow(open_builder(workspace), os.environ)


def follow(builder: "Builder", environ: Mapping[str, str]) -> int:
    """Watch until a signal or until nobody reads the output any more; return the exit code."""
    from halo.build.watch.loop import Watcher
    from halo.build.watch.notices import Notices

    deep = sys.platform != "linux"  # elsewhere the system watches whole trees at no cost
    lines = Lines()
    with _termination(), closing(Notices(polling=wants_polling(environ), deep=deep)) as notices:
        try:
            for event in Watcher(builder, notices).events():
                sys.stdout.write("".join(f"{line}\n" for line in lines.of(event)))
                sys.stdout.flush()
        except KeyboardInterrupt:
            return 0  # it is how one ends it
        except BrokenPipeError:
            return reader_gone()
    return 0


def wants_polling(environ: Mapping[str, str]) -> bool:
    """Tell whether watchfiles' own variable asks for polling; WSL needs it unless the variable says no."""
    value = environ.get("WATCHFILES_FORCE_POLLING", "")
    if value:
        return value.lower() not in ("false", "disable", "disabled")
    return hasattr(os, "uname") and "microsoft-standard" in os.uname().release.lower()


@contextmanager
def _termination() -> Iterator[None]:
    """Let SIGTERM end it as Ctrl-C does: between two steps, with nothing half written."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Lines:
    """Writes events as lines. A failure that several targets share is explained once."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}  # messages, and who failed with them first

    def of(self, event: "Event") -> list[str]:
        """Return the lines of an event."""
        from halo.build.watch import events as watch_events

        if isinstance(event, watch_events.Built):
            return self._built(event)
        if isinstance(event, watch_events.Failed):
            return [self._failed(event)]
        if isinstance(event, watch_events.Gone):
            return [f"gone    {event.name}"]
        if isinstance(event, watch_events.Watching):
            failed = f", {event.failed} failed" if event.failed else ""
            return [f"watching {event.targets} targets{failed} in {event.folders} folders; Ctrl-C ends it"]
        if isinstance(event, watch_events.Lost):
            return [f"lost    {event.folder} is gone; waiting for it"]
        if isinstance(event, watch_events.Back):
            return [f"back    {event.folder}"]
        return [str(event)]

    def _built(self, event: "Built") -> list[str]:
        label = event.target.label
        self._told = {message: first for message, first in self._told.items() if first != label}
        manifest = event.artifact.manifest
        what = ["new", f"{manifest.tokens:,} tokens"] if event.difference is None else _what(event.difference)
        parts = [label, manifest.fingerprint[:7], *what, f"{event.seconds * 1000:,.0f} ms"]
        return ["built   " + "   ".join(parts), *(f"        {remark}" for remark in event.remarks)]

    def _failed(self, event: "Failed") -> str:
        from halo.workspace.layers import one_line

        label = _label(event.target)
        first = self._told.setdefault(event.message, label)
        if first != label:
            return f"failed  {label}   as {first}"
        return f"failed  {label}   {one_line(_place(event.message))}"


def _label(target: "Target | None") -> str:
    return target.label if target is not None else "workspace"


def _what(difference: "Difference") -> list[str]:
    """Say what changed first, and by how much."""
    first = difference.first_change
    if difference.change == "unchanged":
        return ["same prompt"]
    if first is not None:
        where = f"{first.segment} {_place(first.source)}:{first.line}"
    elif difference.tools:
        where = f"tool {difference.tools[0].name}"
    elif difference.hunks:
        where = difference.hunks[0].kind
    else:
        where = ", ".join(change.field for change in difference.fields)
    return [where, f"+{difference.added_tokens:,} −{difference.removed_tokens:,} tokens"]  # noqa: RUF001


def _place(source: str) -> str:
    return source.removeprefix("workspace:")
