"""`halo check`: everything that can be said against a workspace, by numbered rules."""

import os
import sys

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import LayerError, TreeError


@click.command("check")
@workspace_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
    help="For people, for programs, for SARIF viewers, or as annotations of a GitHub workflow.",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Fail a prompt that has more, with its few-shots and tool schemas.",
)
@click.option(
    "-a",
    "--agent",
    "agents",
    metavar="ID",
    multiple=True,
    help="Narrow the budget and the rules about agents to this one; may be given again.",
)
@click.option("--global", "with_global", is_flag=True, help="Check with the global folder and its settings.")
def command(
    *, workspace: str | None, form: str, budget: int | None, agents: tuple[str, ...], with_global: bool
) -> int:
    """Check the layers and the assembled prompts; compiles in memory and leaves the workspace as it is.

    Exits with 1 when something is found that is more than a remark (info). The global folder is left out, so
    that the result is the same on every machine. A line is switched off by a remark above it, such as
    `<!-- halo: ignore H603 -->` or `# halo: ignore H503`. The budget is for the agents of the workspace, and
    with --global for those of the global folder; for one that comes with Halo if --agent names it. The rules:
    docs/reference/diagnostics.md.
    """
    from halo.checks import reports
    from halo.checks.broken import broken
    from halo.checks.checking import Report, check
    from halo.checks.subject import take
    from halo.cli.tokens import offline_counter
    from halo.version import __version__

    places = open_builder(workspace).places
    try:
        subject = take(places.tree() if with_global else places.shared_tree(), agents)
        report = check(subject, budget, offline_counter())
    except (LayerError, TreeError) as error:
        # Nothing can be looked at: settings are broken. Programs get a document all the same.
        if form == "text":
            raise
        report = Report((broken(error),), suppressed=0)
    match form:
        case "json":
            text = reports.as_json(report)
        case "sarif":
            text = reports.as_sarif(report, __version__, _below_top(places.workspace))
        case "github":
            text = reports.as_github(report, _below_top(places.workspace))
        case _:
            text = reports.as_text(report, "" if _is_here(places.workspace) else places.workspace)
    sys.stdout.write(text)
    return 1 if report.failed else 0


def _is_here(workspace: str) -> bool:
    return os.path.realpath(workspace) == os.path.realpath(os.getcwd())


def _below_top(workspace: str) -> str:
    """Return the way from the top of the git repository to `workspace`, such as `svc/`; empty without one."""
    start = folder = os.path.realpath(workspace)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ""
        folder = parent
    return "" if folder == start else os.path.relpath(start, folder).replace(os.sep, "/") + "/"
