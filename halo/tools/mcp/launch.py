"""What is needed to start or reach a server: its definition with all values in place, and its sandbox."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from halo.tools.base import ToolFailure
from halo.tools.sandbox.mounts import Opening
from halo.tools.sandbox.system import HOME
from halo.workspace.mcp.servers import McpServer
from halo.workspace.settings.files import expand, variables_in

if TYPE_CHECKING:
    from halo.tools.sandbox.bubblewrap import Boxed

# What a program gets of the environment, and what Windows starts none without; the rest it gets by name.
_KEPT = ("PATH", "HOME", "LANG", "SYSTEMROOT", "PATHEXT", "TEMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
_SANDBOX_PATH = "/usr/local/bin:/usr/bin:/bin"
# Shorter values would be found everywhere, and are no secrets.
_SHORTEST_SECRET = 6


class Launch(NamedTuple):
    """A server that may be started or spoken to.

    `environment` is all that a command gets; `secrets` are values of variables, by their names, which must
    not show. `opening` is the sandbox that a command runs in below full access; None where there is none.
    """

    name: str
    server: McpServer
    workspace: str
    environment: Mapping[str, str]
    headers: Mapping[str, str]
    secrets: Mapping[str, str]
    opening: Opening | None = None

    def masked(self, text: str) -> str:
        """Return `text` with the names of variables in the place of their values."""
        for name, value in self.secrets.items():
            text = text.replace(value, f"<<{name}>>")
        return text


def launch(
    name: str, server: McpServer, workspace: str, environ: Mapping[str, str], opening: Opening | None = None
) -> Launch:
    """Put values of `environ` into a definition. Raises `ToolFailure` for a variable that is not set."""
    given = {**server.env, **server.headers}
    wanted = {variable for value in given.values() for variable in variables_in(value)}
    if missing := sorted(wanted - set(environ)):
        raise ToolFailure(
            f"the MCP server {name} needs the environment variable {missing[0]}, which is not set"
        )
    headers = {key: expand(value, environ)[0] for key, value in server.headers.items()}
    for key, value in headers.items():
        if not re.fullmatch(r"[\t -~]*", value):
            raise ToolFailure(f"the MCP server {name}: the value of the header {key} is not printable ASCII")
    kept = {key: environ[key] for key in _KEPT if key in environ}
    own = {key: expand(value, environ)[0] for key, value in server.env.items()}
    secrets = {v: environ[v] for v in sorted(wanted) if len(environ[v]) >= _SHORTEST_SECRET}
    return Launch(name, server, workspace, {**kept, **own}, headers, secrets, opening)


def plain_command(start: Launch) -> tuple[list[str], str]:
    """Return what runs a server with the user's rights, and the folder that it starts in."""
    return list(start.server.command), os.path.join(start.workspace, start.server.cwd)


def sandboxed_command(start: Launch) -> "Boxed":
    """Return a server in bubblewrap, ready to be started. Raises `ToolFailure` where that cannot be.

    Not for an event loop.
    """
    from halo.tools.sandbox.bubblewrap import boxed, find_bubblewrap

    problem = find_bubblewrap().problem
    if problem or start.opening is None:
        raise ToolFailure(
            f"the MCP server {start.name} is a program: below full access those run in a sandbox only, "
            f"and {problem or 'there is none here'}"
        )
    folder = os.path.join(os.path.realpath(start.workspace), start.server.cwd)
    environment = {**start.environment, "HOME": HOME, "TMPDIR": "/tmp"}  # noqa: S108
    environment["PATH"] = start.server.env.get("PATH", _SANDBOX_PATH)
    return boxed(start.opening, start.server.command, environment, folder)
