"""`.halo/mcp.lock.json`: what the tools of a server were when the user last looked at them.

Prompts are compiled from it alone, so a server cannot change what a model is told. It is committed, holds no
path, no command and no secret, and is written by `halo mcp lock`.
"""

from functools import lru_cache, partial
from typing import Any

import msgspec

from halo.errors import LayerError
from halo.files.canonical import canonical_json
from halo.files.digests import sha256
from halo.files.tree import DEFAULT_LIMIT, NotFound, Tree, read_part
from halo.files.tree_recording import Project
from halo.workspace.mcp.schemas import tool_problem

MCP_LOCK = "workspace:.halo/mcp.lock.json"
FORMAT = 1
_PART = "mcp/"
_HINT = "remove it, then: halo mcp lock"


class LockedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as its server described it. `annotations` are its own claims, which nothing believes."""

    name: str
    input_schema: dict[str, Any]
    description: str = ""
    annotations: dict[str, Any] = {}

    @property
    def digest(self) -> str:
        """The digest of all that is known of it."""
        return sha256(canonical_json(self))


class LockedServer(msgspec.Struct, frozen=True):
    """The tools of a server, sorted by name, and the digest of them all."""

    digest: str
    tools: tuple[LockedTool, ...]

    @classmethod
    def of(cls, tools: tuple[LockedTool, ...]) -> "LockedServer":
        """Lock these tools."""
        ordered = tuple(sorted(tools, key=lambda tool: tool.name))
        return cls(_digest(ordered), ordered)

    def find(self, name: str) -> LockedTool | None:
        """Return the tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


class Lock(msgspec.Struct, frozen=True):
    """The whole file."""

    format: int
    servers: dict[str, LockedServer]


def _digest(tools: tuple[LockedTool, ...]) -> str:
    return sha256(canonical_json(tools))


def read_lock(tree: Tree) -> Lock:
    """Read the whole lock; an absent one is empty. Raises `LayerError` for a damaged one."""
    try:
        return parse_lock(tree.read(MCP_LOCK))
    except NotFound:
        return Lock(FORMAT, {})


def read_locked(tree: Tree, server: str) -> LockedServer | None:
    """Read what one server is locked to, None where it is not; who asks rests on that part alone.

    Raises `LayerError` for a damaged lock, and for one in which a tool is not what it may be.
    """
    try:
        part = read_part(tree, MCP_LOCK, _PART + server, partial(_server_part, server=server))
    except NotFound:
        return None
    return _checked(server, msgspec.json.decode(part, type=LockedServer)) if part else None


def lock_part(part: str) -> Project | None:
    """Return how the part of a server is cut out of the lock, None for a name that is none of its parts."""
    if not part.startswith(_PART):
        return None
    return partial(_server_part, server=part.removeprefix(_PART))


def render_lock(lock: Lock) -> bytes:
    """Write the lock for people who review it: indented, sorted, and no character that hides.

    Raises `LayerError` for one that is too large to be read again.
    """
    import json

    value = msgspec.to_builtins(lock, order="sorted")
    data = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=True).encode() + b"\n"
    if len(data) > DEFAULT_LIMIT:
        raise LayerError(
            f"a lock of {len(data):,} bytes could not be read again; {DEFAULT_LIMIT:,} are possible",
            file=MCP_LOCK,
            hint="lock fewer servers, each by its name",
        )
    return data


def _server_part(data: bytes, *, server: str) -> bytes:
    locked = parse_lock(data).servers.get(server)
    return canonical_json(locked) if locked is not None else b""


@lru_cache(maxsize=8)
def parse_lock(data: bytes) -> Lock:
    """Parse the bytes of a lock. Raises `LayerError`."""
    try:
        lock = msgspec.json.decode(data, type=Lock)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise LayerError(f"not a lock of MCP servers: {error}", file=MCP_LOCK, hint=_HINT) from None
    if lock.format != FORMAT:
        raise LayerError(
            f"format {lock.format} is not of this version of Halo", file=MCP_LOCK, hint="update Halo"
        )
    return lock


def _checked(server: str, locked: LockedServer) -> LockedServer:
    """Refuse what `halo mcp lock` would not have written: the file may be a stranger's, or badly merged."""
    if _digest(locked.tools) != locked.digest:
        raise LayerError(
            f"the tools of {server} are not what was locked: edited by hand, or merged",
            file=MCP_LOCK,
            hint=f"halo mcp lock {server}",
        )
    names = [tool.name for tool in locked.tools]
    if names != sorted(set(names)):
        raise LayerError(f"the tools of {server} are not in order", file=MCP_LOCK, hint=_HINT)
    for tool in locked.tools:
        problem = tool_problem(tool.name, tool.description, tool.input_schema, tool.annotations)
        if problem:
            raise LayerError(f"{server}/{tool.name!a}: {problem}", file=MCP_LOCK, hint=_HINT)
    return locked
