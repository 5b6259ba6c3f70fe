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
    from halo.build.whole import survey, write_gate

    builder = open_builder(workspace)
    whole = survey(builder)
    for oddity in whole.oddities:
        click.echo(str(oddity), err=True)
    stale = [target for target in whole.targets if builder.status(target).artifact is None]
    failed = 0
    if stale:
        from halo.cli.doit_run import build_stale

        failed = build_stale(builder, stale, jobs)
    for name in builder.prune(whole.targets):
        click.echo(f"gone    {name}", err=True)
    write_gate(whole)
    fresh = len(whole.targets) - len(stale)
    click.echo(f"{len(whole.targets)} targets: " + _summary(len(stale) - failed, fresh, failed))
    if failed:
        return 1
    if kv:
        from halo.cli.states import prepare_states

        prepare_states(builder, whole.targets)
    return 0


def _summary(built: int, fresh: int, failed: int) -> str:
    if not built and not failed:
        return "all fresh"
    parts = [(built, "built"), (fresh, "fresh"), (failed, "failed")]
    return ", ".join(f"{number} {what}" for number, what in parts if number)
