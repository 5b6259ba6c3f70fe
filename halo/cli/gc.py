"""`halo gc`: remove what nothing refers to any more."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halo.build.builder import Builder
    from halo.build.garbage import Plan
    from halo.models.states import Swept
    from halo.records.artifacts import Artifact


@click.command("gc")
@workspace_option
@click.option("--dry-run", "dry", is_flag=True, help="Say what would go, and remove nothing.")
def command(*, workspace: str | None, dry: bool) -> int:
    """Remove artifacts that no pointer, session or run mentions, leftovers of killed builds, unused states.

    What was made or used within the last hour stays, for a build or a turn may be about to refer to it.
    Builds and turns may go on meanwhile. Exits with 1, and removes no artifact, when something that might
    mention one cannot be read.
    """
    from halo.build.sweeping import carry_out, plan_sweep, sweep_lock

    builder = open_builder(workspace)
    if dry:
        plan = plan_sweep(builder)
    else:
        with sweep_lock(builder):
            plan = carry_out(builder, plan_sweep(builder))
    swept = _sweep_states(builder, plan, dry=dry)
    _report(builder, plan, swept, dry=dry)
    return 1 if plan.unread else 0


def _sweep_states(builder: "Builder", plan: "Plan", *, dry: bool) -> "Swept":
    from halo.models.catalogue import cache_dir
    from halo.models.states import StateStore

    cache, workspace = cache_dir(os.environ), builder.places.workspace
    store = StateStore(cache, workspace)
    live = None
    if store.is_used():  # else there is no need to look at models
        from halo.models.state_keys import live_keys

        live = live_keys(_artifacts(builder, plan), cache, workspace)
    return store.sweep(live, dry=dry)


def _artifacts(builder: "Builder", plan: "Plan") -> "Iterator[Artifact]":
    """Load the artifacts that stay. A damaged one is of no use before it is built anew."""
    from halo.errors import ArtifactError

    for identity in plan.kept:
        with suppress(ArtifactError):
            yield builder.store.load(identity)


def _report(builder: "Builder", plan: "Plan", swept: "Swept", *, dry: bool) -> None:
    verb = "would go" if dry else "gone    "
    halo = builder.places.halo
    for path in plan.strange:
        click.echo(f"left     {os.path.relpath(path, halo)}: not made by Halo, or not whole", err=True)
    items = (*plan.orphans, *plan.artifacts.values(), *plan.leftovers)
    for item in items:
        click.echo(f"{verb} {os.path.relpath(item.path, halo)}  {item.bytes:,} bytes", err=True)
    for key in swept.keys:
        click.echo(f"{verb} state {key[:12]}", err=True)
    for problem in plan.unread:
        click.echo(f"kept     every artifact: {problem}", err=True)
    counts = (
        (len(plan.artifacts), "artifact"),
        (len(plan.leftovers), "leftover"),
        (len(plan.orphans), "pointer or gate"),
        (len(swept.keys), "model state"),
    )
    what = ", ".join(f"{number:,} {name}{'' if number == 1 else 's'}" for number, name in counts if number)
    freed = plan.bytes + swept.bytes
    kept = f"{len(plan.kept):,} artifacts kept ({plan.mentioned:,} in use, {plan.young:,} young)"
    click.echo(f"{what or 'nothing'} {'would go' if dry else 'removed'}, {freed:,} bytes; {kept}")
