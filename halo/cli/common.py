"""What several commands share: the workspace option, targets from options."""

import os
from typing import TYPE_CHECKING, Any

import click

from halo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from halo.build.builder import Builder
    from halo.records.targets import AgentTarget

workspace_option: "Callable[[Any], Any]" = click.option(
    "-w", "--workspace", metavar="DIR", help="The workspace; by default the nearest .halo/ from here up."
)


def open_builder(workspace: str | None) -> "Builder":
    """Find the workspace and open its artifacts."""
    from halo.build.builder import Builder
    from halo.workspace.places import find_places

    return Builder(find_places(workspace or os.getcwd(), os.environ))


def agent_target(builder: "Builder", agent: str, role: str, directory: str | None) -> "AgentTarget":
    """Make the target that the options name. A directory outside the workspace is a `UsageError`."""
    from halo.records.targets import AgentTarget

    relative = ""
    if directory is not None:
        root = os.path.realpath(builder.places.workspace)
        given = os.path.realpath(os.path.join(builder.places.workspace, directory))
        if given != root and not given.startswith(root.rstrip(os.sep) + os.sep):
            raise UsageError(f"--dir {directory}: outside the workspace {root}")
        if not os.path.isdir(given):
            raise UsageError(f"--dir {directory}: no such folder in the workspace")
        relative = "" if given == root else os.path.relpath(given, root).replace(os.sep, "/")
    return AgentTarget(agent, "sub" if role == "sub" else "root", relative)
