"""`halo doctor`: what this machine lacks, and how to get it."""

import os
import shutil
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import click

from halo.cli.common import workspace_option
from halo.errors import HaloError, NoWorkspaceError
from halo.files.visible import visible
from halo.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable


class Finding(NamedTuple):
    """One thing that was looked for. `cure` says how to get it; empty when it is there."""

    what: str
    state: str
    cure: str = ""


@click.command("doctor")
@workspace_option
def command(*, workspace: str | None) -> int:
    """Say what is missing on this machine (model, keys, bubblewrap, git) and how to get it.

    Exits with 1 when no provider can answer.
    """
    findings = [
        Finding("halo", f"{__version__} on Python {sys.version.split()[0]}"),
        _program("git", "your system's package git", "git"),
        _bubblewrap(),
        _workspace(workspace),
        *_trust(workspace),
    ]
    answering = [_local(), *_keys(workspace)]
    for finding in (*findings, *answering):
        mark = "ok     " if not finding.cure else "missing"
        click.echo(visible(f"{mark}  {finding.what}: {finding.state}"))
        if finding.cure:
            click.echo(visible(f"         get it: {finding.cure}"))
    if all(finding.cure for finding in answering):
        click.echo("no provider can answer yet", err=True)
        return 1
    return 0


def _program(name: str, cure: str, executable: str) -> Finding:
    path = shutil.which(executable)
    return Finding(name, path) if path else Finding(name, "not found", cure)


def _bubblewrap() -> Finding:
    """Say whether shell commands can be kept in a sandbox; that bubblewrap is there does not tell."""
    from halo.tools.sandbox.bubblewrap import installed, probe

    found = probe(installed())
    if not found.problem:
        return Finding("bubblewrap", f"{found.program}, works")
    return Finding("bubblewrap", "shell commands run with full access only", found.problem)


def _trust(workspace: str | None) -> list[Finding]:
    """Say what the user allowed the workspace; nothing where there is none."""
    from halo.workspace.demands import Demands, read_demands
    from halo.workspace.places import find_places
    from halo.workspace.trust import Grants, read_grants

    try:
        places = find_places(workspace or os.getcwd(), os.environ)
        tree = places.tree()
        grants = read_grants(tree, places.workspace, places.home)
        demands = Demands() if grants.bundled else read_demands(tree)
    except NoWorkspaceError:
        return []
    except HaloError as error:
        return [Finding("trust", _first_line(error), error.hint or "mend that file")]
    tools = "agents may change files and run commands here" if grants.changes else "agents only read here"
    if grants == Grants(demands) or grants.bundled:
        return [Finding("trust", tools)]
    return [Finding("trust", f"{tools}; the workspace asks for more", "look at it and allow it: halo trust")]


def _workspace(workspace: str | None) -> Finding:
    from halo.workspace.places import find_places

    try:
        return Finding("workspace", find_places(workspace or os.getcwd(), os.environ).workspace)
    except NoWorkspaceError as error:
        return Finding("workspace", error.message, "halo init")
    except HaloError as error:
        return Finding("workspace", error.message, error.hint or "mend that")


def _local() -> Finding:
    from halo.models.catalogue import cache_dir, list_models

    if find_spec("xllamacpp") is None:
        return Finding("local model", "the engine is not installed", "pip install 'halo-make[local]'")
    here = [m.name for m in list_models(cache_dir(os.environ)) if m.present]
    if not here:
        return Finding("local model", "no model was pulled", "halo model pull")
    return Finding("local model", ", ".join(here))


def _first_line(error: HaloError) -> str:
    return str(error).partition("\n")[0]


def _keys(workspace: str | None) -> list[Finding]:
    from halo.files.tree import DiskTree
    from halo.models.opening import KEY_VARIABLES
    from halo.sessions.provider_keys import provider_key
    from halo.workspace.locate import halo_home
    from halo.workspace.places import find_places
    from halo.workspace.trust import Grants, read_grants

    home = halo_home(os.environ)
    allowed: Callable[[], Grants] = Grants
    try:
        places = find_places(workspace or os.getcwd(), os.environ)
        tree = places.tree()
        allowed = partial(read_grants, tree, places.workspace, home)
    except HaloError:  # said above
        tree = DiskTree({"secrets": os.path.join(home, "secrets")})
    found = []
    for provider, variable in KEY_VARIABLES.items():
        cure = f"export {variable}=…, or {provider}.secrets.api_key in ~/.halo/secrets/settings.yaml"
        try:
            key = provider_key(provider, tree, os.environ, allowed)
        except HaloError as error:
            found.append(Finding(f"{provider} key", _first_line(error), error.hint or "mend that file"))
            continue
        found.append(
            Finding(f"{provider} key", "set") if key else Finding(f"{provider} key", "not set", cure)
        )
    return found
