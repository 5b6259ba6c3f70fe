"""`halo export`: layers in the form that other tools read."""

import os

import click

from halo.cli.common import workspace_option

# What `--check`, which does nothing, says where an export says what it did.
_UNDONE = {"made": "missing", "renewed": "out of date", "gone": "obsolete"}


@click.group("export")
def command() -> None:
    """Write the layers of a workspace in the form that other tools read."""


@command.command("agents-md")
@workspace_option
@click.argument("directory", default="", metavar="[DIR]")
@click.option(
    "--global", "with_global", is_flag=True, help="Let global INSTRUCTIONS.md serve as it does in prompts."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is not what it would be.")
def agents_md(*, workspace: str | None, directory: str, with_global: bool, check: bool) -> int:
    """Write AGENTS.md for the workspace, and one for each directory with rules, into DIR.

    DIR is the workspace unless another is given. INSTRUCTIONS.md, INDEX.md and the list of skills go into the
    first; a directory's own rules into the others. A file that Halo did not write, or that was changed since,
    is not touched: the command says so and writes nothing.
    """
    from halo.build.exporting import carry_out, plan_export
    from halo.compiler.agents_md import NAME, agents_md_files
    from halo.errors import UsageError
    from halo.workspace.directories import find_directories
    from halo.workspace.places import find_places

    places = find_places(workspace or os.getcwd(), os.environ)
    folder = os.path.abspath(directory or places.workspace)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{directory} is not a folder")
    tree = places.tree() if with_global else places.shared_tree()
    directories = find_directories(tree)
    for path, why in directories.closed:
        click.echo(f"{path}: rules in it are not seen: {why}", err=True)
    if not directories.complete:
        click.echo("there are too many directories; rules in those beyond are not seen", err=True)
    steps = plan_export(folder, agents_md_files(tree, directories.with_rules), NAME)
    if not check:
        carry_out(folder, steps)
    width = max(map(len, _UNDONE.values())) + 2 if check else 8
    for step in steps:
        word = _UNDONE.get(step.action, step.action) if check else step.action
        click.echo(f"{word:<{width}}{step.path}{' ' * bool(step.why)}{step.why}")
    if not steps:
        click.echo("nothing to export: no instructions, index, skills or rules of directories", err=True)
    return int(check and any(step.action != "kept" for step in steps))
