"""What several commands share: options, and targets made of them."""

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from halo.build.builder import Builder
    from halo.records.targets import Access, AgentTarget, Mode, Platform

workspace_option: "Callable[[Any], Any]" = click.option(
    "-w", "--workspace", metavar="DIR", help="The workspace; by default the nearest .halo/ from here up."
)


form_option: "Callable[[Any], Any]" = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object.",
)


profile_option: "Callable[[Any], Any]" = click.option(
    "--profile", metavar="NAME", default="", help="With the models of general.models.profiles.NAME."
)


def target_options(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """Add the options that `agent_target` makes a target of."""
    for option in reversed(_TARGET_OPTIONS):
        function = option(function)
    return function


_TARGET_OPTIONS: "tuple[Callable[[Any], Any], ...]" = (
    click.option(
        "--role",
        type=click.Choice(["root", "sub"]),
        default="root",
        show_default=True,
        help="In a session of its own, or started by another agent.",
    ),
    click.option("--dir", "directory", metavar="DIR", help="The working directory, inside the workspace."),
    click.option(
        "--mode",
        type=click.Choice(["full", "minimal", "none"]),
        default="full",
        show_default=True,
        help="All of it; without skills, user, reply tags and heartbeats; the identity line alone.",
    ),
    click.option(
        "--platform",
        type=click.Choice(["posix", "windows"]),
        default="posix",
        show_default=True,
        help="Whose variants of the prompts.",
    ),
    click.option(
        "--access",
        type=click.Choice(["full", "workspace", "readonly"]),
        default="full",
        show_default=True,
        help="The access level: it decides about tools and skills.",
    ),
    profile_option,
)


class AgentCommand(click.Command):
    """A command whose agent is named by `-a`: a word that stands alone is answered with that."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, and refuse what is left."""
        left = super().parse_args(ctx, args)
        if left and not ctx.resilient_parsing:
            raise click.UsageError(f"unexpected word {left[0]!r}; an agent is named by -a {left[0]}", ctx)
        return left


def open_builder(workspace: str | None) -> "Builder":
    """Find the workspace and open its artifacts."""
    from halo.build.builder import Builder
    from halo.workspace.places import find_places

    return Builder(find_places(workspace or os.getcwd(), os.environ))


def agent_target(
    builder: "Builder",
    agent: str,
    role: str,
    directory: str | None,
    *,
    mode: "Mode" = "full",
    platform: "Platform" = "posix",
    access: "Access" = "full",
    profile: str = "",
) -> "AgentTarget":
    """Make the target that the options name. A directory outside the workspace is a `UsageError`."""
    from halo.records.targets import AgentTarget
    from halo.workspace.locate import relative_directory

    relative = relative_directory(builder.places.workspace, directory) if directory is not None else ""
    return AgentTarget(agent, "sub" if role == "sub" else "root", relative, mode, platform, access, profile)
