"""What several commands share: the workspace option, targets from options."""

import os
from typing import TYPE_CHECKING, Any

import click

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
    from halo.workspace.locate import relative_directory

    relative = relative_directory(builder.places.workspace, directory) if directory is not None else ""
    return AgentTarget(agent, "sub" if role == "sub" else "root", relative)
