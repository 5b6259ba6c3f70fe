"""Rules about which calls of tools may run."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Action = Literal["allow", "ask", "deny"]


class PolicyRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What happens to the calls that it matches; `ask` without somebody to ask means deny.

    `tool` is a name or a pattern of names (`*`, `?`). `command` is a pattern of command lines, for
    `shell_exec` alone: `git *` matches every `git` command.
    """

    tool: Annotated[str, Meta(description="A tool's name, or a pattern such as mcp__*.", min_length=1)]
    action: Annotated[Action, Meta(description="allow, ask or deny.")]
    command: Annotated[
        str, Meta(description="For shell_exec: a pattern of command lines, such as git push*.")
    ] = ""
