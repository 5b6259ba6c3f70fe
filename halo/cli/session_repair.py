"""`halo session repair`: what is wrong with the folders of sessions, and its repair."""

import time
from typing import TYPE_CHECKING

import click

from halo.cli.common import form_option, workspace_option
from halo.cli.session_common import as_json, count, named, open_view

if TYPE_CHECKING:
    from halo.sessions.keeping.examining import Finding
    from halo.sessions.keeping.repairing import Outcome


@click.command("repair")
@workspace_option
@click.option("--apply", is_flag=True, help="Do it. Without it nothing is written.")
@form_option
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
def command(*, workspace: str | None, apply: bool, form: str, sessions: tuple[str, ...]) -> int:
    """Look at sessions, by default at all and at the index, and say what repair would do; --apply does it.

    What is derived from a log is made anew, turns of dead processes are ended as interrupted, damaged lines
    are written down in a report, and what nobody needs any more is removed: temporary files that are older
    than a day, messages that the log has. A log loses no byte, and one that cannot be read, or that a later
    version of Halo wrote to, is left alone; so is a session that a process holds.

    Exits with 1 when something is to be done, could not be done, or cannot be repaired.
    """
    from halo.sessions.keeping.repairing import repair

    view = open_view(workspace)
    ids = tuple(named(view, session).id for session in sessions)
    outcomes: list[Outcome] = []
    looked_at = 0
    for outcome in repair(view.sessions, ids, time.time_ns, apply=apply):
        looked_at += outcome.session
        if outcome.findings:
            outcomes.append(outcome)
            if form == "text":
                _print(outcome, apply=apply)
    to_do = sum(finding.remedy != "none" for outcome in outcomes for finding in outcome.findings)
    wrong = any(finding.wrong for outcome in outcomes for finding in outcome.findings)
    failed = any(outcome.failed for outcome in outcomes)
    if form == "json":
        click.echo(as_json(_document(outcomes, looked_at, applied=apply)))
    else:
        done = "done" if apply else "to do"
        hint = "; halo session repair --apply does it" if to_do and not apply else ""
        click.echo(f"{count(looked_at, 'session')} looked at, {count(to_do, 'thing')} {done}{hint}", err=True)
    return 1 if wrong or failed or (to_do and not apply) else 0


def _print(outcome: "Outcome", *, apply: bool) -> None:
    from halo.files.visible import shown

    click.echo(outcome.name)
    for finding in outcome.findings:
        action = f": {finding.action}" if finding.action else ""
        click.echo(f"  {_state(finding, outcome, apply=apply):<8}{shown(finding.text + action)}")
    if outcome.failed:
        click.echo(f"  {'failed':<8}{shown(outcome.failed)}")


def _state(finding: "Finding", outcome: "Outcome", *, apply: bool) -> str:
    if finding.remedy == "none":
        return "wrong" if finding.wrong else "known"
    if not apply:
        return "to do"
    return "failed" if outcome.failed else "done"


def _document(outcomes: "list[Outcome]", looked_at: int, *, applied: bool) -> object:
    return {
        "format": 1,
        "applied": applied,
        "sessions": looked_at,
        "found": [
            {
                "name": outcome.name,
                "failed": outcome.failed or None,
                "findings": [
                    {
                        "text": finding.text,
                        "action": finding.action or None,
                        "state": _state(finding, outcome, apply=applied),
                    }
                    for finding in outcome.findings
                ],
            }
            for outcome in outcomes
        ],
    }
