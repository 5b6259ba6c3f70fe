"""`halo check`: everything that can be said against a workspace, by numbered rules."""

import sys

import click

from halo.cli.common import open_builder, workspace_option


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
@click.option("--global", "with_global", is_flag=True, help="Check with the global folder and its settings.")
def command(*, workspace: str | None, form: str, budget: int | None, with_global: bool) -> int:
    """Check the layers and the assembled prompts; compiles in memory and leaves the workspace as it is.

    Exits with 1 when something is found that is more than a remark (info). The global folder is left out, so
    that the result is the same on every machine. A line is switched off by a remark above it, such as
    `<!-- halo: ignore H603 -->` or `# halo: ignore H503`. The rules: docs/reference/diagnostics.md.
    """
    from halo import __version__
    from halo.checks import reports
    from halo.checks.checking import check
    from halo.checks.subject import take
    from halo.cli.tokens import offline_counter

    places = open_builder(workspace).places
    subject = take(places.tree() if with_global else places.shared_tree())
    report = check(subject, budget, offline_counter())
    match form:
        case "json":
            text = reports.as_json(report)
        case "sarif":
            text = reports.as_sarif(report, __version__)
        case "github":
            text = reports.as_github(report)
        case _:
            text = reports.as_text(report)
    sys.stdout.write(text)
    return 1 if report.failed else 0
