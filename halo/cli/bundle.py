"""`halo bundle`: the artifacts of a workspace in one file, and back."""

import os
from typing import TYPE_CHECKING

import click

from halo.cli.common import open_builder, workspace_option
from halo.errors import UsageError

if TYPE_CHECKING:
    from halo.build.builder import Builder
    from halo.records.targets import Target


@click.command("bundle")
@workspace_option
@click.option("-o", "--output", metavar="FILE", help="Where to write it.  [default: <workspace>.halo.tar]")
@click.option("--unpack", "packed", metavar="FILE", help="Unpack FILE into DIR instead.")
@click.argument("directory", required=False, metavar="[DIR]")
def command(*, workspace: str | None, output: str | None, packed: str | None, directory: str | None) -> None:
    """Pack the artifacts of every agent, skill and directory's rules, building what is stale.

    Where the file is unpacked (--unpack FILE [DIR], by default here), `halo prompt` and `halo run` work
    without any layer, and nothing can be compiled. The same artifacts make the same file. It is verified
    as a whole before anything is written.
    """
    if packed is not None:
        if workspace is not None or output is not None:
            raise UsageError("--unpack takes a file and a folder; -w and -o are for packing")
        _unpack(packed, directory or ".")
        return
    if directory is not None:
        raise UsageError("DIR is where --unpack unpacks to", hint="-w DIR names a workspace to pack")
    _pack(open_builder(workspace), output)


def _pack(builder: "Builder", output: str | None) -> None:
    from halo.build.bundle import make_bundle, pack
    from halo.build.whole import survey

    targets = survey(builder).targets
    bundle = make_bundle(builder, targets)
    path = os.path.abspath(output or f"{os.path.basename(builder.places.workspace) or 'workspace'}.halo.tar")
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.writelines(pack(bundle, builder.store))
        size = os.path.getsize(temporary)
        os.replace(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    for note in _left_out(builder, targets):
        click.echo(note, err=True)
    click.echo(f"{path}: {len(targets)} targets, {size:,} bytes")


def _left_out(builder: "Builder", targets: "list[Target]") -> list[str]:
    """Say which skills have files that tools read as files: those are no artifacts."""
    from halo.records.targets import SkillTarget
    from halo.workspace.ids import serving_folder

    tree = builder.places.tree()
    found = []
    for target in targets:
        if not isinstance(target, SkillTarget):
            continue
        folder = serving_folder(tree, "skills", target.id).folder
        names = {entry.name for entry in tree.list(folder)}
        if names - {"SKILL.md", "config.yaml"}:
            found.append(f"note: skill {target.id}: the other files of its folder are not in the bundle")
    return found


def _unpack(packed: str, directory: str) -> None:
    from halo.build.unpacking import unpack
    from halo.workspace.locate import halo_home

    bundle = unpack(packed, directory, halo_home(os.environ))
    click.echo(f"{os.path.abspath(directory)}: {len(bundle.targets)} targets", err=True)
