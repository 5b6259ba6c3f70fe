"""`halo diff`: what a change of layers does to the assembled prompts."""

import os
import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import workspace_option

if TYPE_CHECKING:
    from halo.build.diff.revisions import State
    from halo.records.differences import Comparison
    from halo.records.targets import Target


@click.command("diff")
@workspace_option
@click.argument("revisions", nargs=-1, metavar="[REV [REV]]")
@click.option("-a", "--agent", metavar="ID", help="Only this agent, as root and as sub.")
@click.option("--global", "with_global", is_flag=True, help="Include the global folder, on both sides.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "json"]),
    default="text",
    show_default=True,
    help="For the terminal, for the comment of a pull request, or for programs.",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when anything differs.")
def command(
    *,
    workspace: str | None,
    revisions: tuple[str, ...],
    agent: str | None,
    with_global: bool,
    form: str,
    exit_code: bool,
) -> int:
    """Show what differs in the assembled prompts: HEAD against the work tree, REV against it, or two REVs.

    Both sides are compiled in memory; the work tree is not touched. Exits with 1 when a target does not
    compile on one side.
    """
    if len(revisions) > 2:
        raise click.UsageError("at most two revisions can be compared")
    comparison = _compare(workspace or os.getcwd(), revisions or ("HEAD",), agent, with_global=with_global)
    sys.stdout.write(_rendered(comparison, form))
    sys.stdout.flush()
    failed = any(difference.failed for difference in comparison.affected)
    return 1 if failed or (exit_code and comparison.affected) else 0


def _compare(start: str, revisions: tuple[str, ...], agent: str | None, *, with_global: bool) -> "Comparison":
    from halo.build.diff.changes import compare_trees
    from halo.build.diff.revisions import open_states
    from halo.compiler.version import COMPILER
    from halo.records.differences import FORMAT, Comparison

    with open_states(start, os.environ, revisions, with_global=with_global) as (old, new):
        changes = compare_trees(old.tree, new.tree, lambda target: agent is None or _is_of(target, agent))
        if agent is not None and not (changes.affected or changes.unchanged):
            raise _unknown(agent, old, new)
    for remark in dict.fromkeys((*old.remarks, *new.remarks, *changes.oddities)):
        click.echo(str(remark), err=True)
    return Comparison(
        FORMAT,
        COMPILER,
        old.side,
        new.side,
        with_global,
        tuple(changes.affected),
        tuple(changes.unchanged),
    )


def _is_of(target: "Target", agent: str) -> bool:
    from halo.records.targets import AgentTarget

    return isinstance(target, AgentTarget) and target.agent == agent


def _unknown(agent: str, *states: "State") -> Exception:
    from halo.build.collecting import survey_tree
    from halo.errors import UnknownNameError
    from halo.records.targets import AgentTarget

    targets = [target for state in states for target in survey_tree(state.tree).targets]
    return UnknownNameError.of(
        "agent", agent, sorted({t.agent for t in targets if isinstance(t, AgentTarget)})
    )


def _rendered(comparison: "Comparison", form: str) -> str:
    if form == "json":
        from halo.files.canonical import readable_json

        return readable_json(comparison).decode()
    if form == "md":
        from halo.cli.diff_markdown import markdown

        return markdown(comparison)
    from halo.cli.diff_text import text

    return text(comparison, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
