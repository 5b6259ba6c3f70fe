"""`general.session.delegation`: how far sessions may start and reach one another."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class DelegationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The bounds hold for a whole run: for the session at its top and everything below it."""

    depth: Annotated[
        int, Meta(ge=0, le=64, description="How deep sessions may start others; 0: not at all.")
    ] = 4
    concurrency: Annotated[
        int, Meta(ge=1, le=256, description="How many turns run at once; further ones wait.")
    ] = 8
    visibility: Annotated[
        Literal["tree", "workspace"],
        Meta(description="Which sessions an agent may see: those of its run, or all of the workspace."),
    ] = "tree"
    ping_pong: Annotated[
        int, Meta(ge=0, le=5, description="How often two sessions answer each other by themselves.")
    ] = 5
    archive_minutes: Annotated[
        int,
        Meta(ge=1, description="When a session that was started by another is put away after its report."),
    ] = 60
