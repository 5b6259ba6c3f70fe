"""`general.mcp.servers` of settings.yaml: programs and addresses that offer tools.

A server is one value: one that the workspace's settings define hides that of the machine entirely, so that
the headers of one file never go to the address of another.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from halo.workspace.models.config import Problem


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A server: either a command that is started, or an address. `<<NAME>>` is a variable's value."""

    command: Annotated[
        tuple[str, ...], Meta(description="The program and its arguments; it speaks on its standard streams.")
    ] = ()
    env: Annotated[
        dict[str, str],
        Meta(
            description="Its environment beside PATH, HOME and LANG: a value, or <<NAME>> for a variable's."
        ),
    ] = {}
    cwd: Annotated[
        str, Meta(description="Where it starts, relative to the workspace root; the root if left out.")
    ] = ""
    url: Annotated[
        str, Meta(description="An https address (http on this machine) that speaks streamable HTTP.")
    ] = ""
    headers: Annotated[
        dict[str, str], Meta(description="Headers of every request; <<NAME>> for a variable's value.")
    ] = {}
    call_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)], Meta(description="How long one call of a tool may take.")
    ] = 120


class McpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`general.mcp`."""

    servers: Annotated[
        dict[str, McpServer], Meta(description="Servers by name; agents list the names under mcp.")
    ] = {}


# As `halo.models.endpoints` reads addresses, and a query: what two parsers could read differently is none.
# Patterns are compiled when they are needed: every command imports this, and few have a server to look at.
_ADDRESS = (
    r"(?i)(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/[A-Za-z0-9._~%+=:@,;!$&'()*-]*)*(?:\?[A-Za-z0-9._~%+=:@,;!$&'()*/?-]*)?"
)
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105  # a word of HTTP
_PRINTABLE = r"[\t -~]*"
# What the protocol or the client itself says in a request.
_RESERVED = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "te", "transfer-encoding", "upgrade"}
)


def is_loopback_address(url: str) -> bool:
    """Tell whether an address is surely on this machine; names other than `localhost` are not."""
    import ipaddress

    match = re.fullmatch(_ADDRESS, url)
    host = match["host"].lower().strip("[]") if match is not None else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def mcp_problem(settings: McpSettings) -> Problem | None:
    """Find what the types cannot say: the first fault, with its path below `general.mcp`."""
    from halo.workspace.ids import is_id

    for name, server in settings.servers.items():
        if not is_id(name):
            return Problem(
                ("servers", name), f"{name!r} is not a name for a server", "letters, digits, _ and - only"
            )
        found = _server_problem(server)
        if found is not None:
            return found._replace(path=("servers", name, *found.path))
    return None


def _server_problem(server: McpServer) -> Problem | None:
    if bool(server.command) == bool(server.url):
        return Problem((), "a server has either a command or a url", 'command: ["program", "argument"]')
    if server.url:
        return _address_problem(server) or _header_problem(server)
    return _command_problem(server)


def _command_problem(server: McpServer) -> Problem | None:
    if server.headers:
        return Problem(("headers",), "only a server with a url has headers", "a command has env")
    if not server.command[0]:
        return Problem(("command", "0"), "the first word of a command is the program")
    for i, word in enumerate(server.command):
        if "\0" in word:
            return Problem(("command", str(i)), "NUL cannot stand in a command")
    for name, value in server.env.items():
        if not re.fullmatch(_VARIABLE, name) or "\0" in value:
            return Problem(("env", name), f"{name!a} is not a variable of an environment")
    return Problem(("cwd",), "NUL cannot stand in a path") if "\0" in server.cwd else None


def _address_problem(server: McpServer) -> Problem | None:
    if server.env or server.cwd:
        path = "env" if server.env else "cwd"
        return Problem((path,), f"only a server with a command has {path}", "an address has headers")
    match = re.fullmatch(_ADDRESS, server.url)
    if match is None or not 0 < int(match["port"] or 1) < 65536:
        return Problem(
            ("url",), "not a plain http or https address", "https://host[:port][/path], without a user name"
        )
    if match["scheme"].lower() != "https" and not is_loopback_address(server.url):
        return Problem(("url",), "http is for this machine alone: anybody could read and answer", "use https")
    return None


def _header_problem(server: McpServer) -> Problem | None:
    for name, value in server.headers.items():
        if not re.fullmatch(_TOKEN, name) or not re.fullmatch(_PRINTABLE, value):
            return Problem(("headers", name), f"{name!a}: a header is printable ASCII")
        if name.lower() in _RESERVED or name.lower().startswith("mcp-"):
            return Problem(("headers", name), f"{name} is set by the protocol")
    return None
