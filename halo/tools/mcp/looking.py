"""Looks at servers to lock them: starts each, lists its tools, ends it."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.mcp.connection import Connection
from halo.tools.mcp.launch import Launch
from halo.workspace.mcp.lock import FORMAT, Lock, LockedServer


class Look(NamedTuple):
    """What a server has now; `refused` are tools that cannot be locked, with the reason.

    `problem` says why nothing is known of it, with the end of what it wrote to stderr in `errors`.
    """

    name: str
    server: LockedServer | None = None
    refused: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    errors: str = ""


async def look_at(starts: Mapping[str, Launch | str], *, free: bool) -> tuple[Look, ...]:
    """Look at all servers at once; programs run in a sandbox unless they are `free`."""
    return tuple(await asyncio.gather(*(_look(name, start, free=free) for name, start in starts.items())))


async def _look(name: str, start: Launch | str, *, free: bool) -> Look:
    if isinstance(start, str):
        return Look(name, problem=start)
    connection = Connection(start, free=free)
    try:
        listing = await connection.listing()
        return Look(name, listing.locked, listing.refused)
    except ToolFailure as failure:
        return Look(name, problem=str(failure), errors=connection.errors)
    finally:
        await connection.close()


def locked_anew(lock: Lock, looks: tuple[Look, ...], *, gone: frozenset[str] = frozenset()) -> Lock:
    """Put what was seen into a lock. A server of which nothing is known stays as it was; `gone` ones go."""
    servers = {name: server for name, server in lock.servers.items() if name not in gone}
    servers.update({look.name: look.server for look in looks if look.server is not None})
    return Lock(FORMAT, dict(sorted(servers.items())))
