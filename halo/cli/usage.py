"""`halo usage`: what model calls have used and cost."""

import os
from datetime import datetime
from typing import TYPE_CHECKING

import click

from halo.cli.common import form_option, workspace_option

if TYPE_CHECKING:
    import datetime as dt

    from halo.files.tree import Tree
    from halo.sessions.usage.totals import By, Total

_DAY = click.DateTime(["%Y-%m-%d"])
_FINGERPRINT = 12  # characters that are shown to people


@click.command("usage")
@workspace_option
@click.option(
    "--by",
    type=click.Choice(["agent", "day", "model", "fingerprint", "session", "run"]),
    default="agent",
    show_default=True,
    help="A line for each. fingerprint: of the prompt; run: a session and all that it started.",
)
@click.option("--since", type=_DAY, metavar="DATE", help="The first day, in your time zone.")
@click.option("--until", type=_DAY, metavar="DATE", help="The last day.")
@click.option("-a", "--agent", metavar="NAME", default="", help="Only sessions with this agent.")
@form_option
def command(
    *,
    workspace: str | None,
    by: "By",
    since: datetime | None,
    until: datetime | None,
    agent: str,
    form: str,
) -> None:
    """Add up the model calls of all sessions, deleted ones included.

    Calls are those that were answered; the tokens of attempts that failed count, too. What a call cost is
    what the prices said when it was made; money of different currencies is not added up. What is copied into
    a fork or an import was used elsewhere. What cannot be read is said on stderr.
    """
    from halo.errors import UsageError
    from halo.files.visible import shown
    from halo.sessions.find import sessions_folder
    from halo.sessions.usage.ledger import read_ledger
    from halo.sessions.usage.totals import Wanted, totals
    from halo.workspace.places import find_places

    first, last = since.date() if since else None, until.date() if until else None
    if first and last and last < first:
        raise UsageError(f"--until {last} lies before --since {first}")
    places = find_places(workspace or os.getcwd(), os.environ)
    zone = _zone(places.tree())
    ledger = read_ledger(sessions_folder(places.halo))
    for problem in ledger.problems:
        click.echo(f"warning: {shown(problem)}", err=True)
    lines, everything = totals(ledger.sessions, by, Wanted(zone, first, last, agent))
    if form == "json":
        click.echo(_as_json(by, str(zone), lines, everything))
    else:
        _print(by, lines, everything)


def _zone(tree: "Tree") -> "dt.tzinfo":
    """Return the user's time zone; UTC where it is unknown. Broken settings are told of, and not asked."""
    import datetime as dt
    from zoneinfo import ZoneInfo

    from halo.errors import HaloError
    from halo.sessions.machine import local_zone_name, user_zone_name

    try:
        name = user_zone_name(tree)
    except HaloError as error:
        click.echo(f"warning: {error}", err=True)
        name = local_zone_name()
    return ZoneInfo(name) if name else dt.UTC


def _as_json(by: str, zone: str, lines: "list[Total]", everything: "Total") -> str:
    from halo.cli.session_common import as_json

    return as_json(
        {
            "format": 1,
            "by": by,
            "zone": zone,
            "rows": [_document(line) for line in lines],
            "total": _document(everything),
        }
    )


def _document(line: "Total") -> dict[str, object]:
    usage = line.usage
    return {
        "key": line.key,
        "title": line.title,
        "calls": line.calls,
        "failed": line.failed,
        "uncached": usage.uncached,
        "written": usage.written,
        "read": usage.read,
        "output": usage.output,
        "cost": dict(line.costs),
        "unpriced": line.unpriced,
    }


def _print(by: str, lines: "list[Total]", everything: "Total") -> None:
    from halo.cli.session_common import columns
    from halo.files.visible import visible

    if not lines:
        click.echo("no model calls", err=True)
        return
    head = (by, "calls", "failed", "sent", "from cache", "produced", "cost", "")
    rows = [head, *(_row(by, line) for line in lines), _row("", everything)]
    for text in columns(rows, right=range(1, 7)):
        click.echo(visible(text))
    if everything.unpriced:
        count = everything.calls + everything.failed
        click.echo(f"{everything.unpriced:,} of {count:,} have no price", err=True)


def _row(by: str, line: "Total") -> tuple[str, ...]:
    usage = line.usage
    key = (line.key[:_FINGERPRINT] if by == "fingerprint" else line.key) or "(unknown)"
    cost = " + ".join(f"{money:.4f} {currency}".rstrip() for currency, money in line.costs)
    read = f"{usage.read / usage.prompt:.0%}" if usage.prompt else ""
    figures = (f"{line.calls:,}", f"{line.failed:,}" if line.failed else "", f"{usage.prompt:,}")
    return (key, *figures, read, f"{usage.output:,}", cost, line.title)
