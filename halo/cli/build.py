"""`halo build`: compile what is stale."""

import click

from halo.cli.common import open_builder, workspace_option


@click.command("build")
@workspace_option
@click.option(
    "-n", "--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Compile in parallel."
)
@click.option("--kv", is_flag=True, help="Also compute the model state of local agents ahead of time.")
def command(*, workspace: str | None, jobs: int, kv: bool) -> int:
    """Compile every agent (as root and sub), every skill and every directory's rules that is stale.

    A target that fails leaves its old artifact in place; the others are built all the same.
    """
    from halo.build.inspection import inspect

    builder = open_builder(workspace)
    inspection = inspect(builder)
    for remark in (*inspection.oddities, *inspection.remarks):
        click.echo(str(remark), err=True)
    stale, failed = len(inspection.stale), 0
    if stale:
        from halo.cli.doit_run import build_stale

        told = build_stale(builder, inspection.stale, jobs)
        failed = inspection.look_again()
        for target in inspection.stale:
            if target.name not in told:
                click.echo(f"stale   {target.name}  changed while it was built", err=True)
    for name in inspection.finish():
        click.echo(f"gone    {name}", err=True)
    summary = _summary(stale - failed, inspection.count - stale, failed)
    click.echo(f"{inspection.count} targets: {summary}")
    if failed:
        return 1
    if kv:
        from halo.build.whole import survey
        from halo.cli.states import prepare_states

        prepare_states(builder, survey(builder).targets)
    return 0


def _summary(built: int, fresh: int, failed: int) -> str:
    if not built and not failed:
        return "all fresh"
    parts = [(built, "built"), (fresh, "fresh"), (failed, "failed")]
    return ", ".join(f"{number} {what}" for number, what in parts if number)
