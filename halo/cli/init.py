"""`halo init`: a workspace that compiles and runs at once; never overwrites a file."""

import os
import shlex

import click

from halo.errors import HaloError, UsageError

# What is made by machines or private stays out of git; layers, probes, locks and evo/history go in.
_GITIGNORE = b"""\
# Written by `halo init`: what Halo makes anew or what is private. Layers are committed.
/artifacts/
/build/
/sessions/
/memory/
/outbox/
/traces/
/batch/
/evo/*
!/evo/history/
"""


@click.command("init")
@click.argument("directory", default="", metavar="[DIR]")
@click.option("--global", "home", is_flag=True, help="Seed the global folder (HALO_HOME or ~/.halo) instead.")
def command(*, directory: str, home: bool) -> None:
    """Make DIR (by default here) a workspace, or seed the global folder.

    Existing files are kept as they are, but for the JSON Schemas in .halo/schemas/, which are this version's.
    """
    from halo.workspace.locate import HALO_DIR, halo_home, templates_folder
    from halo.workspace.places import refuse_home_inside

    templates = templates_folder()
    if home:
        if directory:
            raise click.UsageError(f"--global seeds {halo_home(os.environ)}; leave {directory} away")
        base = halo_home(os.environ)
        for name in ("prompts", "agents", "skills", "models"):
            _copy(os.path.join(templates, name), os.path.join(base, "global", name))
        _write_schemas(os.path.join(base, "global"))
        secrets = os.path.join(base, "secrets")
        os.makedirs(secrets, mode=0o700, exist_ok=True)
        _put(os.path.join(secrets, "settings.yaml"), _SECRETS, mode=0o600)
        return
    directory = os.path.normpath(directory or ".")
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a folder")
    own = os.path.realpath(halo_home(os.environ))
    if os.path.realpath(os.path.join(directory, HALO_DIR)) == own:
        raise UsageError(
            f"{directory} is where Halo's own home lies, and cannot be a workspace",
            hint="choose another folder; halo init --global seeds the home",
        )
    refuse_home_inside(directory, halo_home(os.environ))
    above = _workspace_above(directory)
    new = not os.path.lexists(os.path.join(directory, HALO_DIR))
    _copy(os.path.join(templates, "workspace"), directory)
    folder = os.path.normpath(os.path.join(directory, HALO_DIR))
    _put(os.path.join(folder, ".gitignore"), _GITIGNORE)
    _write_schemas(folder)
    if new:
        _let_agents_work(directory)
    _say_of(directory, above)
    step = "" if directory == "." else f"cd {shlex.quote(directory)} && "
    click.echo(f'next: {step}halo model pull && halo run "Hello"', err=True)


def _let_agents_work(directory: str) -> None:
    """Allow a workspace that was made just now what its agents' tools do: it is the user's own."""
    from halo.workspace.demands import read_demands
    from halo.workspace.places import find_places
    from halo.workspace.trust_file import record_trust

    places = find_places(directory, os.environ)
    access = read_demands(places.tree()).digests.get("access")
    if access is not None:
        record_trust(places.home, places.workspace, {"access": access})
        click.echo("trusted agents may change files and run commands here: halo trust", err=True)


def _workspace_above(directory: str) -> str:
    """Return the workspace that a new one in `directory` would lie in; "" for none."""
    from halo.errors import NoWorkspaceError
    from halo.workspace.locate import find_workspace, halo_home

    own = os.path.realpath(directory)
    start = own
    while not os.path.isdir(start):
        start = os.path.dirname(start)
    try:
        found = find_workspace(start, halo_home(os.environ))
    except NoWorkspaceError:
        return ""
    return found if found != own else ""


def _say_of(directory: str, above: str) -> None:
    """Say what else must be known of a workspace that has just been made."""
    if above:
        click.echo(
            f"warning: {directory} lies in the workspace {above}; in it, commands use the new one", err=True
        )
    try:
        data = _content(os.path.join(directory, "dodo.py")) or b""
    except (HaloError, OSError):
        return  # a link, or no file: nothing is known of it
    if b"halo.dodo" not in data:
        click.echo("dodo.py is not Halo's; for doit it needs the line: from halo.dodo import *", err=True)


_SECRETS = b"""\
# Keys and values of this machine, readable by you alone. Keys (`secrets:`) reach no prompt; `params:`
# fill the placeholders that name them when a turn starts, unless they are declared secret.
#
# anthropic:
#   secrets:
#     api_key: <<ANTHROPIC_API_KEY>>
# openai:
#   secrets:
#     api_key: <<OPENAI_API_KEY>>
"""


def _copy(source: str, destination: str) -> None:
    """Copy a folder of templates, file by file, without overwriting."""
    for folder, folders, names in os.walk(source):
        folders.sort()
        relative = os.path.relpath(folder, source)
        for name in sorted(names):
            if name == ".gitkeep":
                os.makedirs(os.path.normpath(os.path.join(destination, relative)), exist_ok=True)
                continue
            with open(os.path.join(folder, name), "rb") as file:
                _put(os.path.normpath(os.path.join(destination, relative, name)), file.read())


def _write_schemas(folder: str) -> None:
    """Write the schemas that the first line of the YAML templates names, for editors."""
    from halo.files.atomic import replace_file
    from halo.files.canonical import readable_json
    from halo.files.regular import refuse_links
    from halo.workspace.yaml_schemas import FILES, yaml_schema

    refuse_links(folder, "schemas")
    os.makedirs(os.path.join(folder, "schemas"), exist_ok=True)
    for name in sorted(FILES):
        path = os.path.join(folder, "schemas", f"{name}.json")
        data = readable_json(yaml_schema(name))
        before = _content(path)
        if data != before:
            replace_file(path, data)
        click.echo(
            f"{'made' if before is None else 'kept' if data == before else 'renewed'}    {path}", err=True
        )


def _content(path: str) -> bytes | None:
    from halo.files.regular import read_regular
    from halo.files.tree import DEFAULT_LIMIT

    try:
        return read_regular(path, DEFAULT_LIMIT)
    except FileNotFoundError:
        return None


def _put(path: str, data: bytes, mode: int = 0o644) -> None:
    from halo.files.atomic import create_file

    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    made = create_file(path, data, mode=mode)
    click.echo(f"{'made' if made else 'kept'}    {path}", err=True)
