"""`halo prompt`: exactly what a model is told, and why."""

import sys
from typing import TYPE_CHECKING

import click

from halo.cli.common import agent_target, open_builder, workspace_option

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.records.artifacts import Artifact, Manifest


@click.command("prompt")
@workspace_option
@click.option("-a", "--agent", default="default", show_default=True, help="Whose prompt.")
@click.option(
    "--role",
    type=click.Choice(["root", "sub"]),
    default="root",
    show_default=True,
    help="In a session of its own, or started by another agent.",
)
@click.option("--dir", "directory", metavar="DIR", help="The working directory, inside the workspace.")
@click.option(
    "--layers", is_flag=True, help="A table instead: segment, file, lines, tokens, share, stability."
)
@click.option("--fill", "filled", is_flag=True, help="Fill the slots as a turn would.")
@click.option("--frozen", is_flag=True, help="Refuse a stale artifact instead of building it.")
def command(
    *,
    workspace: str | None,
    agent: str,
    role: str,
    directory: str | None,
    layers: bool,
    filled: bool,
    frozen: bool,
) -> None:
    """Print the assembled prompt of an agent, and nothing else, on stdout.

    Slots such as {{workspace_root}} are printed as they are written; a turn fills them in memory.
    """
    builder = open_builder(workspace)
    target = agent_target(builder, agent, role, directory)
    artifact = builder.frozen(target) if frozen else builder.ensure(target)
    if layers:
        text = layer_table(artifact.manifest)
    else:
        text = fill_prompt(builder, artifact) if filled else artifact.prompt
    sys.stdout.write(text)
    sys.stdout.flush()
    for diagnostic in artifact.manifest.diagnostics:
        click.echo(str(diagnostic), err=True)


def fill_prompt(builder: "Builder", artifact: "Artifact") -> str:
    """Fill the slots of an artifact as a turn that starts now would."""
    import os
    import time

    from halo.runner.slots import fill
    from halo.sessions.ids import timestamp
    from halo.sessions.values import Moment, slot_values
    from halo.workspace.trust import read_grants

    places = builder.places
    tree = places.tree()
    moment = Moment.of(artifact, places.workspace, timestamp(time.time_ns()))
    grants = read_grants(tree, places.workspace, places.home)
    values, warnings = slot_values(artifact.manifest.slots, moment, tree, os.environ, grants)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return fill(artifact, values).text


def layer_table(manifest: "Manifest") -> str:
    """Lay out the segments: what each is, where it comes from, and what it costs."""
    total = manifest.tokens or 1
    rows = [("segment", "file", "lines", "tokens", "share", "")]
    rows.extend(
        (
            segment.id,
            segment.source,
            f"{segment.first_line}-{segment.last_line}",
            f"{segment.tokens:,}",
            f"{100 * segment.tokens / total:.0f} %",
            "stable" if segment.stability == "static" else "volatile",
        )
        for segment in manifest.segments
    )
    prefix = manifest.static_prefix
    rows.append(("total", "", "", f"{manifest.tokens:,}", "", f"{prefix.tokens:,} in the cached prefix"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(widths[i]) if i in (2, 3, 4) else cell.ljust(widths[i])
            for i, cell in enumerate(row[:5])
        ]
        lines.append("  ".join([*cells, row[5]]).rstrip())
    return "\n".join(lines) + "\n"
