"""Groups of commands whose modules are imported when they are called."""

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LateGroup(click.Group):
    """A group; `table` maps a command's name to its module.

    The command is the module's attribute `command`, unless another one stands behind a colon.
    """

    def __init__(self, *arguments: Any, table: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """List the names of all commands."""
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; None where there is none."""
        module = self._table.get(cmd_name)
        if module is None:
            return None
        name, _, attribute = module.partition(":")
        command: click.Command = getattr(importlib.import_module(name), attribute or "command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` name, with near misses for one that does not exist."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            from halo.errors import near_miss_hint

            raise click.UsageError(
                f"no command {args[0]!r}; {near_miss_hint(args[0], self.list_commands(ctx))}", ctx
            )
        return super().resolve_command(ctx, args)
