"""What the tools of a turn may use: commands, secrets, hosts; and what nobody may read in their results."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from halo.files.tree import Tree
from halo.records.artifacts import Artifact
from halo.records.targets import Access, AgentTarget, permits
from halo.sessions.access import tool_settings
from halo.sessions.secrets import Secrets, command_secrets, known_secrets, settings_hold_secrets
from halo.tools.sandbox.base import Commands
from halo.tools.sandbox.commands import SandboxedCommands
from halo.tools.sandbox.direct import DirectCommands
from halo.tools.sandbox.mounts import Opening
from halo.tools.secrets import masker
from halo.workspace.places import Places
from halo.workspace.settings.general import ToolSettings
from halo.workspace.trust import Grants

_SHELL = "shell_exec"


class Rights(NamedTuple):
    """Fields of `Surroundings`, and what the user should know: secrets that commands do not get."""

    access: Access
    commands: Commands | None
    refusal: str
    shell_seconds: float
    secrets: Mapping[str, str]
    private_hosts: frozenset[str]
    mask: Callable[[str], str]
    hidden: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def rights_of(
    artifact: Artifact,
    access: Access,
    places: Places,
    tree: Tree,
    environ: Mapping[str, str],
    grants: Grants,
) -> Rights:
    """Collect them for a turn of `artifact` with `access`."""
    settings = tool_settings(tree, grants)
    has_shell = any(spec.name == _SHELL for spec in artifact.manifest.tools)
    given = Secrets({})
    if has_shell and permits(access, "workspace"):
        given = command_secrets(tree, _owners(artifact), environ, grants)
    return Rights(
        access,
        _commands(access, places, environ, settings) if has_shell else None,
        "shell_exec is refused: this session may only read",
        settings.seconds,
        given.values,
        frozenset(settings.private_hosts),
        masker(known_secrets(tree, environ, grants)),
        hidden_paths(places, settings),
        given.warnings,
    )


def hidden_paths(places: Places, settings: ToolSettings) -> tuple[str, ...]:
    """Return what the settings keep from models: absolute, or relative to the workspace."""
    return tuple(_of_home(path, places) for path in settings.hidden)


def _owners(artifact: Artifact) -> list[str]:
    """Return the ids whose secrets its commands may use: the agent's, and those of its visible skills."""
    target = artifact.manifest.target
    agent = [target.agent] if isinstance(target, AgentTarget) else []
    return [*agent, *(skill.id for skill in artifact.manifest.skills)]


def _commands(
    access: Access, places: Places, environ: Mapping[str, str], settings: ToolSettings
) -> Commands | None:
    if access == "full":
        return DirectCommands(places.workspace, environ)
    if not permits(access, "workspace"):
        return None
    return SandboxedCommands(sandbox_opening(places, settings), environ)


def sandbox_opening(places: Places, settings: ToolSettings) -> Opening:
    """Say what a sandbox opens and hides."""
    return Opening(
        workspace=places.workspace,
        home=places.user,
        halo_home=places.home,
        network=settings.network,
        writable=tuple(_absolute(path, places) for path in settings.writable),
        hidden=tuple(_absolute(path, places) for path in settings.hidden),
        settings=not settings_hold_secrets(places.tree()),
    )


def _absolute(path: str, places: Places) -> str:
    """Return a path of the settings: below the home if it begins with `~`, else below the workspace."""
    return os.path.join(places.workspace, _of_home(path, places))


def _of_home(path: str, places: Places) -> str:
    return os.path.join(places.user, path[2:]) if path == "~" or path.startswith("~/") else path
