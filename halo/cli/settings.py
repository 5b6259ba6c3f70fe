"""`halo settings`: which values there are, where they stand, and whose they are."""

import click

from halo.cli.common import open_builder, workspace_option


@click.command("settings")
@workspace_option
def command(*, workspace: str | None) -> None:
    """Show every value of the settings, unexpanded: name, value, file and line, and who claims it.

    Secrets are masked, and so are values that nobody claims: the agent, skill or provider that they belong
    to is not there. These are kept; it finds them again when it comes back.
    """
    from halo.files.visible import visible
    from halo.workspace.settings.general import read_general
    from halo.workspace.settings.values import list_values

    tree = open_builder(workspace).places.tree()
    read_general(tree)  # what is wrong in it is said with its line
    values = list_values(tree)
    rows = []
    for value in values:
        remarks = [
            value.claim if value.claim in ("undeclared", "unclaimed") else "",
            "hidden by the workspace's" if value.hidden else "",
            "default" if value.default else "",
        ]
        shown = value.shown or ("" if value.source.endswith("settings.yaml") else "not set")
        where = f"{value.source}:{value.line}"
        rows.append((value.name, shown, where, ", ".join(r for r in remarks if r)))
    if not rows:
        click.echo("no values are set", err=True)
        return
    widths = [min(max(len(row[i]) for row in rows), 60) for i in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        click.echo(visible("  ".join([*cells, row[3]]).rstrip()))
